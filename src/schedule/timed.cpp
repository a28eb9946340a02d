// When the passes of an order run: longest ways from the begin of the step.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/core/error.h"
#include "trireme/schedule/search.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

namespace trireme::schedule {
namespace {

/// A pass begins `lag` after the begin of another, or later.
struct Edge {
  int to = -1;
  Seconds lag;
};

/// Every pass with what waits for it: the next one of its rank, the one that takes its message, the
/// one that the room of a stream holds back until this one has begun.
struct PassGraph {
  std::vector<int> first;  // by rank: number of its first pass; passes are numbered rank by rank
  std::vector<Seconds> times;
  std::vector<std::array<Edge, 3>> edges;
  std::vector<int> waits_for;  // edges to it

  void add(int from, std::size_t which, int to, Seconds lag) {
    edges[static_cast<std::size_t>(from)][which] = {to, lag};
    ++waits_for[static_cast<std::size_t>(to)];
  }
};

/// Numbers of the passes of one chunk, by micro-batch.
struct ChunkPasses {
  std::vector<int> forwards, backwards;
};

PassGraph graph_of(const Workload& workload, const Order& order);
/// Adds what passes of neighbouring chunks wait for, and what the room of streams holds back.
void add_messages(const Workload& workload, const Order& order,
                  const std::vector<ChunkPasses>& passes, PassGraph& graph);
/// Begin of every pass, in the order of their numbers; nothing where some wait in a circle.
std::optional<std::vector<Seconds>> begins_of(PassGraph graph);
Seconds time_of(const ChunkCosts& costs, Pass::Kind kind);
Bytes peak_of(const Workload& workload, const std::vector<Pass>& passes);

}  // namespace

std::optional<Timed> timed(const Workload& workload, const Order& order) {
  const PassGraph graph = graph_of(workload, order);
  const auto begins = begins_of(graph);
  if (!begins) return std::nullopt;
  Timed result;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const auto first = begins->begin() + graph.first[rank];
    const auto end = begins->begin() + graph.first[rank + 1];
    result.begins.emplace_back(first, end);
    result.peaks.push_back(peak_of(workload, order[rank]));
  }
  for (std::size_t pass = 0; pass < begins->size(); ++pass)
    result.step = std::max(result.step, (*begins)[pass] + graph.times[pass]);
  return result;
}

bool fits(const Workload& workload, const Timed& timed) {
  for (std::size_t rank = 0; rank < workload.room.size(); ++rank)
    if (timed.peaks.at(rank) > workload.room[rank]) return false;
  return true;
}

namespace {

PassGraph graph_of(const Workload& workload, const Order& order) {
  PassGraph graph{.first = {0}};
  for (const std::vector<Pass>& passes : order)
    graph.first.push_back(graph.first.back() + static_cast<int>(passes.size()));
  const auto count = static_cast<std::size_t>(graph.first.back());
  graph.edges.resize(count);
  graph.waits_for.resize(count);
  std::vector<ChunkPasses> numbers(workload.placement.size());
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    int number = graph.first[rank];
    for (const Pass pass : order[rank]) {
      const auto chunk = static_cast<std::size_t>(pass.chunk);
      graph.times.push_back(time_of(workload.chunks.at(chunk), pass.kind));
      if (pass.kind == Pass::Kind::kForward) numbers[chunk].forwards.push_back(number);
      if (is_backward(pass.kind)) numbers[chunk].backwards.push_back(number);
      if (number + 1 < graph.first[rank + 1]) graph.add(number, 0, number + 1, graph.times.back());
      ++number;
    }
  }
  add_messages(workload, order, numbers, graph);
  return graph;
}

void add_messages(const Workload& workload, const Order& order,
                  const std::vector<ChunkPasses>& passes, PassGraph& graph) {
  std::map<std::tuple<int, bool>, std::vector<int>> takers;  // of one rank's streams, as sent
  const auto send = [&](std::size_t rank, int from, int to, Seconds lag, auto stream) {
    graph.add(from, 1, to, graph.times[static_cast<std::size_t>(from)] + lag);
    if (std::cmp_equal(std::get<0>(stream), rank)) return;
    std::vector<int>& taken = takers[stream];
    taken.push_back(to);
    const int before = static_cast<int>(taken.size()) - 1 - workload.capacity;
    if (before >= 0 && from + 1 < graph.first[rank + 1])
      graph.add(taken[static_cast<std::size_t>(before)], 2, from + 1, Seconds(0));
  };
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    takers.clear();
    const std::vector<int> micro_batches = micro_batches_of(order[rank]);
    for (std::size_t i = 0; i < order[rank].size(); ++i) {
      const auto chunk = static_cast<std::size_t>(order[rank][i].chunk);
      const auto micro_batch = static_cast<std::size_t>(micro_batches[i]);
      const int from = graph.first[rank] + static_cast<int>(i);
      if (order[rank][i].kind == Pass::Kind::kForward && chunk + 1 < passes.size())
        send(rank, from, passes[chunk + 1].forwards.at(micro_batch), workload.messages.at(chunk),
             std::tuple(workload.placement[chunk + 1], false));
      if (is_backward(order[rank][i].kind) && chunk > 0)
        send(rank, from, passes[chunk - 1].backwards.at(micro_batch),
             workload.messages.at(chunk - 1) - workload.chunks[chunk - 1].ahead,
             std::tuple(workload.placement[chunk - 1], true));
    }
  }
}

std::optional<std::vector<Seconds>> begins_of(PassGraph graph) {
  std::vector<Seconds> begins(graph.times.size());
  std::vector<int> next;
  for (std::size_t pass = 0; pass < begins.size(); ++pass)
    if (graph.waits_for[pass] == 0) next.push_back(static_cast<int>(pass));
  std::size_t done = 0;
  for (; !next.empty(); ++done) {
    const auto pass = static_cast<std::size_t>(next.back());
    next.pop_back();
    for (const Edge& edge : graph.edges[pass]) {
      if (edge.to < 0) continue;
      const auto to = static_cast<std::size_t>(edge.to);
      begins[to] = std::max(begins[to], begins[pass] + edge.lag);
      if (--graph.waits_for[to] == 0) next.push_back(edge.to);
    }
  }
  if (done < begins.size()) return std::nullopt;
  return begins;
}

Seconds time_of(const ChunkCosts& costs, Pass::Kind kind) {
  switch (kind) {
    case Pass::Kind::kForward:
      return costs.forward;
    case Pass::Kind::kBackward:
      return costs.backward + costs.weights;
    case Pass::Kind::kBackwardInput:
      return costs.backward;
    case Pass::Kind::kBackwardWeights:
      return costs.weights;
  }
  throw LogicError("a pass of no kind");
}

Bytes peak_of(const Workload& workload, const std::vector<Pass>& passes) {
  Bytes held, peak;
  for (const Pass pass : passes) {
    const ChunkCosts& costs = workload.chunks.at(static_cast<std::size_t>(pass.chunk));
    if (pass.kind == Pass::Kind::kForward) {
      held += costs.kept;
      peak = std::max(peak, held + costs.forward_more);
    } else if (is_backward(pass.kind)) {
      peak = std::max(peak, held + costs.backward_more);
      held -= costs.kept;
      if (pass.kind == Pass::Kind::kBackwardInput) held += costs.pending;
    } else {
      held -= costs.pending;
    }
  }
  return peak;
}

}  // namespace
}  // namespace trireme::schedule
