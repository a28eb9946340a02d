// SPDX-License-Identifier: Apache-2.0
#include "instance.h"

#include "trireme/core/error.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

namespace trireme::schedule {
namespace {

/// Ticks of a step that runs pass by pass: N passes times this, times five, fit into 64 bits.
constexpr int kTicksOfAll = 40;

/// The exponent at which all passes and messages one after the other take 2^40 ticks at most.
int exponent_of(const Workload& workload);
/// Makes the streams between chunks on two ranks, in chain order.
void add_streams(Instance& instance);

}  // namespace

Instance::Instance(const Workload& workload)
    : ranks(ranks_of(workload.placement)),
      micro_batches(workload.micro_batches),
      capacity(workload.capacity),
      exponent(exponent_of(workload)),
      chunks_of(static_cast<std::size_t>(ranks)),
      room(static_cast<std::size_t>(ranks), std::numeric_limits<std::int64_t>::max()) {
  for (std::size_t c = 0; c < workload.placement.size(); ++c) {
    const ChunkCosts& costs = workload.chunks.at(c);
    ensure(costs.pending <= costs.kept, "pending bytes are part of those kept");
    ensure(costs.ahead <= costs.backward, "what runs ahead is part of the backward");
    InstanceChunk& chunk = chunks.emplace_back();
    chunk.rank = workload.placement[c];
    chunk.time = {ticks(costs.forward), ticks(costs.backward), ticks(costs.weights)};
    if (costs.is_split()) chunk.time[kWeightsPhase] = std::max(chunk.time[kWeightsPhase], Ticks{1});
    chunk.ahead = std::min(ticks(costs.ahead), chunk.time[kBackwardPhase]);
    if (c + 1 < workload.placement.size()) chunk.message = ticks(workload.messages.at(c));
    chunk.kept = costs.kept.count();
    chunk.pending = costs.is_split() ? costs.pending.count() : 0;
    chunk.forward_more = costs.forward_more.count();
    chunk.backward_more = costs.backward_more.count();
    chunks_of[static_cast<std::size_t>(chunk.rank)].push_back(static_cast<int>(c));
  }
  for (std::size_t rank = 0; rank < workload.room.size(); ++rank)
    room.at(rank) = workload.room[rank].count();
  add_streams(*this);
}

Ticks Instance::ticks(Seconds time) const {
  return std::llround(std::ldexp(time.count(), exponent));
}

Ticks Instance::period() const {
  Ticks most = 0;
  for (const std::vector<int>& mine : chunks_of) {
    Ticks sum = 0;
    for (const int c : mine)
      for (const Ticks time : chunk(c).time) sum += time;
    most = std::max(most, sum);
  }
  return most;
}

int Instance::passes() const {
  int count = 0;
  for (const InstanceChunk& one : chunks) count += one.is_split() ? 3 : 2;
  return count * micro_batches;
}

std::int64_t Instance::change(const InstanceChunk& chunk, Phase phase) {
  if (phase == kForwardPhase) return chunk.kept;
  return phase == kBackwardPhase ? chunk.pending - chunk.kept : -chunk.pending;
}

std::int64_t Instance::need(const InstanceChunk& chunk, Phase phase) {
  if (phase == kForwardPhase) return chunk.kept + chunk.forward_more;
  return phase == kBackwardPhase ? chunk.backward_more : 0;
}

Lists to_lists(const Instance& instance, const Order& order) {
  Lists lists;
  for (const std::vector<Pass>& passes : order) {
    const std::vector<int> numbers = micro_batches_of(passes);
    std::vector<int>& list = lists.emplace_back();
    for (std::size_t i = 0; i < passes.size(); ++i) {
      const Pass pass = passes[i];
      if (pass.kind == Pass::Kind::kForward)
        list.push_back(instance.node(pass.chunk, kForwardPhase, numbers[i]));
      if (is_backward(pass.kind))
        list.push_back(instance.node(pass.chunk, kBackwardPhase, numbers[i]));
      if (gives_weights(pass.kind) && instance.chunk(pass.chunk).is_split())
        list.push_back(instance.node(pass.chunk, kWeightsPhase, numbers[i]));
    }
  }
  return lists;
}

Order to_order(const Instance& instance, const Lists& lists) {
  Order order;
  for (const std::vector<int>& list : lists) {
    std::vector<Pass>& passes = order.emplace_back();
    for (const int node : list) {
      const int chunk = instance.chunk_of(node);
      Pass::Kind kind = Pass::Kind::kForward;
      if (instance.phase_of(node) == kWeightsPhase) kind = Pass::Kind::kBackwardWeights;
      if (instance.phase_of(node) == kBackwardPhase)
        kind =
            instance.chunk(chunk).is_split() ? Pass::Kind::kBackwardInput : Pass::Kind::kBackward;
      passes.push_back({.kind = kind, .chunk = chunk});
    }
  }
  return order;
}

namespace {

int exponent_of(const Workload& workload) {
  Seconds all{};
  for (const ChunkCosts& costs : workload.chunks)
    all += costs.forward + costs.backward + costs.weights;
  for (const Seconds message : workload.messages) all += 2 * message;
  all = all * workload.micro_batches;
  int exponent = 0;
  std::frexp(all.count(), &exponent);
  return kTicksOfAll - exponent;
}

void add_streams(Instance& instance) {
  std::map<std::tuple<int, int, bool>, int> known;
  const auto stream = [&](int from, int to, bool is_of_gradients) {
    if (from == to) return -1;
    const auto [at, is_new] =
        known.try_emplace({from, to, is_of_gradients}, static_cast<int>(instance.streams.size()));
    if (is_new)
      instance.streams.push_back({.from = from, .to = to, .is_of_gradients = is_of_gradients});
    ++instance.streams[static_cast<std::size_t>(at->second)].cuts;
    return at->second;
  };
  for (std::size_t c = 0; c + 1 < instance.chunks.size(); ++c) {
    InstanceChunk& here = instance.chunks[c];
    InstanceChunk& next = instance.chunks[c + 1];
    here.outputs = stream(here.rank, next.rank, false);
    next.gradients = stream(next.rank, here.rank, true);
  }
}

}  // namespace
}  // namespace trireme::schedule
