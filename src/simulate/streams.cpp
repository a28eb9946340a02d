// Message streams between ranks.
// SPDX-License-Identifier: Apache-2.0
#include "streams.h"

#include <algorithm>
#include <map>
#include <utility>

namespace trireme::simulate {

using program::Op;

Streams::Streams(const program::Program& program, const Setting& setting)
    : capacity_(static_cast<std::size_t>(setting.channel_capacity)),
      is_first_step_(setting.is_first_step),
      outputs_(program.rank_of_layer.size(), -1),
      gradients_(program.rank_of_layer.size(), -1) {
  std::map<std::pair<int, int>, int> outputs;
  std::map<std::pair<int, int>, int> gradients;
  const auto find = [&](std::map<std::pair<int, int>, int>& known, int from, int to) {
    const auto [place, is_new] = known.try_emplace({from, to}, static_cast<int>(streams_.size()));
    if (is_new) {
      streams_.push_back({});
      streams_.back().from = from;
      streams_.back().to = to;
      streams_.back().link = setting.platform->link(from, to);
    }
    return place->second;
  };
  for (std::size_t i = 1; i + 1 < program.rank_of_layer.size(); ++i) {
    const int below = program.rank_of_layer[i];
    const int above = program.rank_of_layer[i + 1];
    if (below == above) continue;
    outputs_[i] = find(outputs, below, above);
    gradients_[i] = find(gradients, above, below);
  }
}

std::size_t Streams::number(const program::Action& action) const {
  const bool output = action.op == Op::kSendOutput || action.op == Op::kReceiveInput;
  const auto layer = static_cast<std::size_t>(action.layer);
  return static_cast<std::size_t>(output ? outputs_[layer] : gradients_[layer]);
}

bool Streams::all_asked_for(const Stream& stream) const {
  const auto is_known = [&](const Message& message) {
    return !is_first_step_ || stream.known.contains(message.sent.layer);
  };
  return !full(stream) && std::all_of(stream.messages.begin(), stream.messages.end(), is_known);
}

Seconds Streams::room(const Stream& stream) const {
  if (stream.sent_count < capacity_) return Seconds(0);
  return stream.received[stream.sent_count % capacity_];  // of the message `capacity` before
}

void Streams::push(Stream& stream, const Message& message) {
  stream.messages.push_back(message);
  ++stream.sent_count;
}

void Streams::pop(Stream& stream, Seconds now) {
  if (is_first_step_) stream.known.insert(stream.messages.front().sent.layer);
  stream.messages.pop_front();
  if (stream.received.size() < capacity_) stream.received.resize(capacity_);
  stream.received[stream.received_count % capacity_] = now;
  ++stream.received_count;
}

}  // namespace trireme::simulate
