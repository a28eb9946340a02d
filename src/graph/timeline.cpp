// SPDX-License-Identifier: Apache-2.0
#include "trireme/graph/timeline.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace trireme::graph {
namespace {

using simulate::Event;
using simulate::Lane;

/// The event of an action; drops have none.
Event event_of(const Problem& problem, const Action& action, Span span, bool again);
simulate::RankResult result_of(const Problem& problem, const Outcome& outcome,
                               const StepOfRank& step);

}  // namespace

simulate::Simulation timeline(const Problem& problem, const Schedule& schedule,
                              const Replayed& replayed, const StepOfRank& step) {
  const Outcome& outcome = replayed.outcome;
  simulate::Simulation result;
  simulate::RankResult rank = result_of(problem, outcome, step);
  rank.peak.time = replayed.spans.at(outcome.peak_at).start;
  for (int micro_batch = 0; micro_batch < step.micro_batches; ++micro_batch) {
    const Seconds begin = outcome.time * micro_batch;
    std::vector<bool> computed(problem.graph.nodes.size());
    for (std::size_t at = 0; at < schedule.size(); ++at) {
      const Action& action = schedule[at];
      const Span span{begin + replayed.spans[at].start, begin + replayed.spans[at].end};
      rank.curve.push_back({.time = span.start, .held = step.fixed + replayed.held[at]});
      if (action.op == Op::kDrop) continue;
      bool again = false;
      if (action.op == Op::kCompute) {
        again = computed[static_cast<std::size_t>(action.node)];
        computed[static_cast<std::size_t>(action.node)] = true;
      }
      Event event = event_of(problem, action, span, again);
      if (event.lane == Lane::kOut) rank.copies_out += event.end - event.begin;
      if (event.lane == Lane::kIn) rank.copies_in += event.end - event.begin;
      event.action.micro_batch = micro_batch;
      result.events.push_back(event);
    }
  }
  // With lanes beside compute, copies start later than actions after them.
  std::stable_sort(rank.curve.begin(), rank.curve.end(),
                   [](const auto& a, const auto& b) { return a.time < b.time; });
  result.step = rank.end;
  result.recompute = rank.recompute;
  result.energy = rank.energy;
  if (result.step > Seconds(0)) result.bubble = 1 - rank.busy / result.step;
  result.ranks.push_back(std::move(rank));
  return result;
}

chain::Chain as_chain(const Problem& problem) {
  const Graph& graph = problem.graph;
  chain::Chain chain{.name = graph.name, .input = graph.node(0).bytes, .layers = {}};
  for (int index = 1; index < graph.size(); ++index) {
    const Node& node = graph.node(index);
    chain::LayerCost layer{.name = node.name, .output = node.bytes};
    (node.is_backward ? layer.backward : layer.forward) = problem.cost(index).time;
    chain.layers.push_back(std::move(layer));
  }
  return chain;
}

namespace {

Event event_of(const Problem& problem, const Action& action, Span span, bool again) {
  Event event{.rank = 0, .lane = Lane::kCompute, .begin = span.start, .end = span.end};
  event.action.layer = action.node;
  event.again = again;
  if (action.op == Op::kCopyOut) {
    event.lane = Lane::kOut;
    event.action.op = program::Op::kOffload;
  } else if (action.op == Op::kCopyIn) {
    event.lane = Lane::kIn;
    event.action.op = program::Op::kPrefetch;
  } else {
    const bool is_gradient = problem.graph.node(action.node).is_backward;
    event.action.op = is_gradient ? program::Op::kGradient : program::Op::kCompute;
  }
  return event;
}

simulate::RankResult result_of(const Problem& problem, const Outcome& outcome,
                               const StepOfRank& step) {
  const double times = step.micro_batches;
  simulate::RankResult rank;
  rank.end = outcome.time * times + step.update;
  rank.busy = outcome.busy * times + step.update;
  rank.recompute = outcome.recompute * times;
  rank.wait_for_copies = (outcome.time - outcome.busy) * times;
  rank.peak.size = step.fixed + outcome.peak;
  rank.at_once = rank.peak.size;
  rank.offloaded.values = outcome.offloaded;
  rank.energy = {.compute = outcome.compute * times,
                 .recompute = outcome.recompute_energy * times,
                 .copies = outcome.copies * times,
                 .idle = outcome.idle * times};
  if (problem.capacity > Bytes(0)) rank.moved = step.micro_batches * outcome.offloaded;
  return rank;
}

}  // namespace
}  // namespace trireme::graph
