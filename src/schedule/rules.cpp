// SPDX-License-Identifier: Apache-2.0
#include "rules.h"

#include <algorithm>
#include <limits>

namespace trireme::schedule {
namespace {

constexpr Ticks kLate = std::numeric_limits<Ticks>::max() / 4;

/// How a micro-batch travels, in percent of the fastest way; legs are counted from 0, and a chunk
/// is of leg k where k chunks of the chain before it are on its rank.
struct Travel {
  int even_forward = 100, odd_forward = 100, odd_backward = 100, even_backward = 100;
  int pause = 0;  ///< between last forward and first backward, in percent of the period
};

std::vector<int> legs_of(const Instance& instance) {
  std::vector<int> legs;
  for (int c = 0; c < instance.length(); ++c) {
    const std::vector<int>& mine =
        instance.chunks_of[static_cast<std::size_t>(instance.chunk(c).rank)];
    legs.push_back(static_cast<int>(std::find(mine.begin(), mine.end(), c) - mine.begin()));
  }
  return legs;
}

Rule rule_of(const Instance& instance, const Travel& travel) {
  Rule rule;
  rule.period = instance.period();
  rule.planned.resize(instance.chunks.size());
  const std::vector<int> legs = legs_of(instance);
  const auto leg_is_odd = [&](int c) { return legs[static_cast<std::size_t>(c)] % 2 == 1; };
  const auto planned = [&](int c) -> auto& { return rule.planned[static_cast<std::size_t>(c)]; };
  Ticks now = 0;
  for (int c = 0; c < instance.length(); ++c) {
    planned(c)[kForwardPhase] = now;
    const Ticks hop = instance.chunk(c).time[kForwardPhase] + instance.chunk(c).message;
    now += hop * (leg_is_odd(c) ? travel.odd_forward : travel.even_forward) / 100;
  }
  now += rule.period * travel.pause / 100;
  for (int c = instance.length(); c-- > 0;) {
    const InstanceChunk& chunk = instance.chunk(c);
    planned(c)[kBackwardPhase] = now;
    planned(c)[kWeightsPhase] = kLate;
    const Ticks message = c > 0 ? instance.chunk(c - 1).message : 0;
    now += (chunk.time[kBackwardPhase] + message) *
           (leg_is_odd(c) ? travel.odd_backward : travel.even_backward) / 100;
  }
  for (int c = 0; c < instance.length(); ++c) {
    const Ticks life =
        planned(c)[kBackwardPhase] + instance.chunk(c).time[kBackwardPhase] - planned(c)[kForwardPhase];
    const Ticks count = rule.period > 0 ? (life + rule.period - 1) / rule.period : 1;
    rule.most_in_flight.push_back(static_cast<int>(std::max<Ticks>(1, count)));
  }
  return rule;
}

}  // namespace

std::vector<Rule> rules(const Instance& instance) {
  std::vector<Rule> all;
  for (const int even : {100, 200, 300}) {
    for (const int odd : {100, 200}) {
      for (const int odd_back : {100, 200}) {
        for (const int pause : {0, 100}) {
          for (const int more : {0, 1, instance.micro_batches}) {
            for (const int patience : {100, 50}) {
              Rule rule = rule_of(instance, {even, odd, odd_back, 100, pause});
              for (int& most : rule.most_in_flight) most += more;
              rule.patience = patience;
              all.push_back(std::move(rule));
            }
          }
        }
      }
    }
  }
  return all;
}

std::optional<Lists> flexible_list_schedule(const Instance& instance, Rule rule) {
  while (true) {
    if (auto lists = list_schedule(instance, rule)) return lists;
    int& most = *std::max_element(rule.most_in_flight.begin(), rule.most_in_flight.end());
    if (most == 1) return std::nullopt;
    const int next = std::min(most, instance.micro_batches) - 1;
    for (int& other : rule.most_in_flight) other = std::clamp(other, 1, std::max(1, next));
  }
}

}  // namespace trireme::schedule
