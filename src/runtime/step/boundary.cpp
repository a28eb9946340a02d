// SPDX-License-Identifier: Apache-2.0
#include "trireme/runtime/boundary.h"

#include "state/tensor_bytes.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/tier/memory.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <utility>

namespace trireme::runtime {
namespace {

using program::Action;
using program::Op;

/// A shape message: number of tensors, then per tensor its type, number of dimensions and sizes.
constexpr std::size_t kShapeWords = 1024;
using ShapeMessage = std::array<std::int64_t, kShapeWords>;

ShapeMessage encode(const ValuesShape& shape);
ValuesShape decode(const ShapeMessage& message);
ValuesShape shape_of(const model::Values& values);

/// Whether some rank has several separate runs of layers.
bool shares_ranks(const std::vector<int>& rank_of_layer) {
  std::set<int> left;  // ranks whose run has ended
  for (std::size_t i = 2; i < rank_of_layer.size(); ++i) {
    if (rank_of_layer[i] == rank_of_layer[i - 1]) continue;
    left.insert(rank_of_layer[i - 1]);
    if (left.contains(rank_of_layer[i])) return true;
  }
  return false;
}

bool is_gradient(Op op) {
  return op == Op::kSendGradient || op == Op::kReceiveGradient;
}

}  // namespace

Boundary::Boundary(comm::Channel& channel, std::vector<int> world_rank,
                   std::vector<int> rank_of_layer, c10::Device device)
    : channel_(channel),
      world_rank_(std::move(world_rank)),
      rank_of_layer_(std::move(rank_of_layer)),
      shares_ranks_(shares_ranks(rank_of_layer_)),
      device_(device) {}

void Boundary::expect(const std::vector<Action>& actions) {
  for (const Action& action : actions) {
    if (is_receive(action.op)) streams_[stream_of(action)].expected.push_back(action);
  }
  for (const auto& [key, stream] : streams_) post_next(key);
}

void Boundary::send(const Action& action, model::Values values) {
  const StreamKey key = stream_of(action);
  PeerStream& stream = streams_[key];
  std::erase_if(values, [](const at::Tensor& value) { return !value.defined(); });
  for (at::Tensor& value : values) value = value.contiguous();
  const ValuesShape shape = shape_of(values);
  bool first = false;
  if (!is_gradient(action.op)) {
    const auto known = output_shapes_.find(action.layer);
    if (known == output_shapes_.end()) {
      output_shapes_.emplace(action.layer, shape);
      send_shape(action, key, shape);
      first = shares_ranks_;
      // Post the first gradient's receive: a peer that is ahead may send two before this rank asks.
      post_next({key.first, comm::Stream::kGradients});
    } else if (known->second != shape) {
      throw InputError(concat(to_text(action), ": layer ", action.layer,
                              " gave values of another shape or type than for earlier "
                              "micro-batches; a layer's output must be alike for all"));
    }
  } else {
    ensure(shape == shape_of_message(action), "a gradient has the shape of its output");
  }
  make_room(stream);
  if (values.empty()) return;
  Posted posted{.values = std::move(values), .transfers = {}, .action = action, .first = first};
  for (const at::Tensor& value : posted.values) {
    posted.transfers.push_back(channel_.send(bytes_of(value), key.first, key.second));
  }
  stream.outgoing.push_back(std::move(posted));
}

model::Values Boundary::receive(const Action& action) {
  const StreamKey key = stream_of(action);
  PeerStream& stream = streams_[key];
  if (!stream.incoming) {
    ensure(!stream.expected.empty() && stream.expected.front() == action,
           "receives happen in the announced order");
    stream.expected.pop_front();
    if (!is_gradient(action.op) && !output_shapes_.contains(action.layer)) {
      output_shapes_.emplace(action.layer, receive_shape(action, key));
    }
    stream.incoming = post(action, key);
  }
  ensure(stream.incoming->action == action, "receives happen in the announced order");
  wait(*stream.incoming);
  model::Values values = std::move(stream.incoming->values);
  stream.incoming.reset();
  post_next(key);
  return values;
}

void Boundary::flush() {
  for (auto& [key, stream] : streams_) finish(stream);
}

void Boundary::flush_outputs(int layer) {
  if (std::cmp_equal(layer + 1, rank_of_layer_.size())) return;  // the loss is not sent
  finish(streams_[stream_of({Op::kSendOutput, layer, 0})]);
}

void Boundary::finish(PeerStream& stream) {
  for (Announced& shape : stream.announced)
    shape.transfer->wait(to_text(shape.action) + " (its shape)");
  stream.announced.clear();
  for (Posted& posted : stream.outgoing) wait(posted);
  stream.outgoing.clear();
}

void Boundary::make_room(PeerStream& stream) {
  const auto counted = [&] {
    return std::count_if(stream.outgoing.begin(), stream.outgoing.end(),
                         [](const Posted& posted) { return !posted.first; });
  };
  while (!stream.outgoing.empty() &&
         (stream.outgoing.front().transfers.back()->done() || counted() + 1 >= kChannelCapacity)) {
    wait(stream.outgoing.front());
    stream.outgoing.pop_front();
  }
}

Boundary::StreamKey Boundary::stream_of(const Action& action) const {
  const bool down = action.op == Op::kSendOutput || action.op == Op::kReceiveGradient;
  const int peer =
      rank_of_layer_.at(static_cast<std::size_t>(down ? action.layer + 1 : action.layer));
  return {world_rank_.at(static_cast<std::size_t>(peer)),
          is_gradient(action.op) ? comm::Stream::kGradients : comm::Stream::kOutputs};
}

void Boundary::post_next(StreamKey key) {
  PeerStream& stream = streams_[key];
  if (stream.incoming || stream.expected.empty()) return;
  const Action next = stream.expected.front();
  if (!output_shapes_.contains(next.layer)) return;  // its shape comes first
  stream.expected.pop_front();
  stream.incoming = post(next, key);
}

Boundary::Posted Boundary::post(const Action& action, StreamKey key) {
  const tier::TagScope tag(tier::Tag::kChannel);
  Posted posted{.values = {}, .transfers = {}, .action = action};
  for (const ValuesShape::One& one : shape_of_message(action).tensors) {
    const auto type = static_cast<at::ScalarType>(one.type);
    at::Tensor buffer = at::empty(one.sizes, at::TensorOptions(type).device(device_));
    posted.transfers.push_back(channel_.receive(writable_bytes_of(buffer), key.first, key.second));
    posted.values.push_back(std::move(buffer));
  }
  return posted;
}

void Boundary::wait(Posted& posted) {
  for (const auto& transfer : posted.transfers) transfer->wait(to_text(posted.action));
}

ValuesShape Boundary::receive_shape(const Action& action, StreamKey key) {
  ShapeMessage message{};
  channel_.receive(std::as_writable_bytes(std::span(message)), key.first, key.second)
      ->wait(to_text(action) + " (its shape)");
  return decode(message);
}

void Boundary::send_shape(const Action& action, StreamKey key, const ValuesShape& shape) {
  const ShapeMessage message = encode(shape);
  Announced& announced = streams_[key].announced.emplace_back();
  announced.action = action;
  announced.message.assign(message.begin(), message.end());
  announced.transfer =
      channel_.send(std::as_bytes(std::span(announced.message)), key.first, key.second);
}

ValuesShape Boundary::shape_of_message(const Action& action) const {
  ValuesShape shape = output_shapes_.at(action.layer);
  if (is_gradient(action.op)) {
    std::erase_if(shape.tensors, [](const ValuesShape::One& one) {
      return !at::isFloatingType(static_cast<at::ScalarType>(one.type));
    });
  }
  return shape;
}

namespace {

ShapeMessage encode(const ValuesShape& shape) {
  std::vector<std::int64_t> words{static_cast<std::int64_t>(shape.tensors.size())};
  for (const ValuesShape::One& one : shape.tensors) {
    words.push_back(one.type);
    words.push_back(static_cast<std::int64_t>(one.sizes.size()));
    words.insert(words.end(), one.sizes.begin(), one.sizes.end());
  }
  if (words.size() > kShapeWords)
    throw InputError(concat("a layer gave ", shape.tensors.size(),
                            " tensors, more than go from one stage to the next: stack them, or "
                            "cut the chain elsewhere (pipeline.cut)"));
  ShapeMessage message{};
  std::copy(words.begin(), words.end(), message.begin());
  return message;
}

ValuesShape decode(const ShapeMessage& message) {
  ValuesShape shape;
  std::size_t at = 1;
  for (std::int64_t t = 0; t < message[0]; ++t) {
    ValuesShape::One one{.type = static_cast<int>(message.at(at)), .sizes = {}};
    const auto dimensions = static_cast<std::size_t>(message.at(at + 1));
    at += 2;
    for (std::size_t d = 0; d < dimensions; ++d) one.sizes.push_back(message.at(at++));
    shape.tensors.push_back(std::move(one));
  }
  return shape;
}

ValuesShape shape_of(const model::Values& values) {
  ValuesShape shape;
  for (const at::Tensor& value : values) {
    shape.tensors.push_back({static_cast<int>(value.scalar_type()), value.sizes().vec()});
  }
  return shape;
}

}  // namespace
}  // namespace trireme::runtime
