// SPDX-License-Identifier: Apache-2.0
#include "rules.h"

#include <algorithm>

namespace trireme::schedule {
namespace {

/// How a micro-batch travels, in percent of the fastest way; legs are counted from 0, and a chunk
/// is of leg k where k chunks of the chain before it are on its rank.
struct Travel {
  int even_forward = 100, odd_forward = 100, odd_backward = 100, even_backward = 100;
  int pause = 0;  ///< between last forward and first backward, in percent of the period
};

/// How many micro-batches may be on the way beside those that have to, and the patience for W's.
struct Caution {
  int more = 0, patience = 100;
};

Rule rule_of(const Instance& instance, const Travel& travel);
/// Tries a rule with every caution and adds what comes of it.
void try_rule(const Instance& instance, ListScheduler& scheduler, const Rule& rule,
              std::vector<TriedRule>& tried);
/// By chunk: its leg.
std::vector<int> legs_of(const Instance& instance);

}  // namespace

std::vector<TriedRule> usual_rules(const Instance& instance, ListScheduler& scheduler) {
  std::vector<TriedRule> tried;
  for (const int even : {100, 200, 300})
    for (const int odd : {100, 200})
      for (const int odd_back : {100, 200})
        for (const int pause : {0, 100})
          try_rule(instance, scheduler,
                   rule_of(instance, {.even_forward = even,
                                      .odd_forward = odd,
                                      .odd_backward = odd_back,
                                      .pause = pause}),
                   tried);
  std::stable_sort(tried.begin(), tried.end(), [](const TriedRule& a, const TriedRule& b) {
    return a.made.step < b.made.step;
  });
  return tried;
}

namespace {

Rule rule_of(const Instance& instance, const Travel& travel) {
  Rule rule;
  rule.period = instance.period();
  rule.planned.resize(instance.chunks.size());
  const std::vector<int> legs = legs_of(instance);
  const auto of_leg = [&](int c, int even, int odd) {
    return legs[static_cast<std::size_t>(c)] % 2 == 0 ? even : odd;
  };
  const auto planned = [&](int c) -> auto& {
    return rule.planned[static_cast<std::size_t>(c)];
  };
  Ticks now = 0;
  for (int c = 0; c < instance.length(); ++c) {
    const InstanceChunk& chunk = instance.chunk(c);
    planned(c)[kForwardPhase] = now;
    now += (chunk.time[kForwardPhase] + chunk.message) *
           of_leg(c, travel.even_forward, travel.odd_forward) / 100;
  }
  now += rule.period * travel.pause / 100;
  for (int c = instance.length(); c-- > 0;) {
    const InstanceChunk& chunk = instance.chunk(c);
    planned(c)[kBackwardPhase] = now;
    planned(c)[kWeightsPhase] = kNever;
    const Ticks message = c > 0 ? instance.chunk(c - 1).message : 0;
    now += (chunk.time[kBackwardPhase] + message) *
           of_leg(c, travel.even_backward, travel.odd_backward) / 100;
  }
  for (int c = 0; c < instance.length(); ++c) {
    const Ticks life = planned(c)[kBackwardPhase] + instance.chunk(c).time[kBackwardPhase] -
                       planned(c)[kForwardPhase];
    const Ticks count = rule.period > 0 ? (life + rule.period - 1) / rule.period : 1;
    rule.most_in_flight.push_back(
        static_cast<int>(std::clamp<Ticks>(count, 1, instance.micro_batches)));
  }
  return rule;
}

void try_rule(const Instance& instance, ListScheduler& scheduler, const Rule& rule,
              std::vector<TriedRule>& tried) {
  for (const Caution caution : {Caution{0, 100},
                                {0, 50},
                                {1, 100},
                                {1, 50},
                                {instance.micro_batches, 100},
                                {instance.micro_batches, 50}}) {
    Rule other = rule;
    other.patience = caution.patience;
    for (int& most : other.most_in_flight) most += caution.more;
    for (int limit = instance.micro_batches; limit > 0; --limit) {
      for (int& most : other.most_in_flight) most = std::min(most, limit);
      auto made = scheduler.run(other);
      if (!made) continue;
      tried.push_back({std::move(other), std::move(*made)});
      break;
    }
  }
}

std::vector<int> legs_of(const Instance& instance) {
  std::vector<int> legs(instance.chunks.size());
  for (const std::vector<int>& mine : instance.chunks_of)
    for (std::size_t leg = 0; leg < mine.size(); ++leg)
      legs[static_cast<std::size_t>(mine[leg])] = static_cast<int>(leg);
  return legs;
}

}  // namespace
}  // namespace trireme::schedule
