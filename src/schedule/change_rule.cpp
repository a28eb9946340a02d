// SPDX-License-Identifier: Apache-2.0
#include "random.h"
#include "rules.h"

#include <algorithm>

namespace trireme::schedule {
namespace {

/// Neighbouring chunks.
struct Stretch {
  int first = 0, last = 0;
};

class RuleChanger {
 public:
  RuleChanger(const Instance& instance, std::uint64_t seed) : instance_(instance), random_(seed) {}

  void change(Rule& rule) {
    do {
      const int what = random_.below(14);
      if (what < 5)
        shift(rule);
      else if (what < 8)
        allow_more(rule);
      else if (what < 9)
        defer_weights(rule);
      else if (what < 10)
        rule.patience = 25 * random_.below(8);
      else if (what < 12)
        delay_rest(rule);
      else if (what < 13)
        wait_for_plan(rule);
      else
        rule.period = instance_.period() * (95 + random_.below(35)) / 100;
    } while (random_.below(3) == 0);
  }

  /// Ticks that a change may cost at this heat.
  Ticks allowance(Ticks heat) { return (heat >> 16U) * random_.logarithm(); }

 private:
  Stretch stretch() {
    const int count = instance_.length();
    Stretch drawn{random_.below(count), random_.below(count)};
    const int shape = random_.below(4);
    if (shape == 1) drawn.last = drawn.first + random_.below(3);
    if (shape >= 2) {
      drawn.first = drawn.first / instance_.ranks * instance_.ranks;
      drawn.last = drawn.first + instance_.ranks - 1;
    }
    if (drawn.first > drawn.last) std::swap(drawn.first, drawn.last);
    drawn.last = std::min(drawn.last, count - 1);
    return drawn;
  }

  Ticks time(const Rule& rule) { return rule.period * (random_.below(25) - 12) / 12; }

  /// Forwards or backwards of a stretch earlier or later, or farther apart.
  void shift(Rule& rule) {
    const auto [first, last] = stretch();
    const Phase phase = random_.below(2) == 0 ? kForwardPhase : kBackwardPhase;
    const Ticks by = time(rule);
    const bool grows = random_.below(2) == 0;
    for (int c = first; c <= last; ++c)
      rule.planned[at(c)][phase] += grows ? by * (c - first) / std::max(1, last - first) : by;
  }

  void allow_more(Rule& rule) {
    const auto [first, last] = stretch();
    const int by = random_.below(2) == 0 ? -1 : 1;
    for (int c = first; c <= last; ++c)
      rule.most_in_flight[at(c)] =
          std::clamp(rule.most_in_flight[at(c)] + by, 1, instance_.micro_batches);
  }

  /// W's of a stretch that long after the backwards, or where nothing else can run.
  void defer_weights(Rule& rule) {
    const auto [first, last] = stretch();
    const bool is_last = random_.below(2) == 0;
    const Ticks wait = rule.period * random_.below(4 * instance_.ranks) / 4;
    for (int c = first; c <= last; ++c)
      rule.planned[at(c)][kWeightsPhase] =
          is_last ? kNever : rule.planned[at(c)][kBackwardPhase] + wait;
  }

  /// All that a micro-batch does from some pass on.
  void delay_rest(Rule& rule) {
    const Ticks by = time(rule);
    const auto [first, last] = stretch();
    const bool from_forward = random_.below(2) == 0;
    for (int c = 0; c < instance_.length(); ++c) {
      if (from_forward && c >= first) rule.planned[at(c)][kForwardPhase] += by;
      if (from_forward || c <= last) rule.planned[at(c)][kBackwardPhase] += by;
    }
  }

  /// Ranks wait for planned times, or for some time before them, or not at all.
  void wait_for_plan(Rule& rule) {
    const bool waits = random_.below(3) != 0;
    rule.early = waits ? instance_.period() * random_.below(17) / 8 : kNever;
  }

  static std::size_t at(int index) { return static_cast<std::size_t>(index); }

  const Instance& instance_;
  Random random_;
};

}  // namespace

TriedRule change_rule(const Instance& instance, ListScheduler& scheduler, const TriedRule& start,
                      const RuleChanges& how) {
  RuleChanger changer(instance, how.seed);
  TriedRule best = start;
  TriedRule now = start;
  for (int i = 0; i < how.tries && best.made.step > how.target; ++i) {
    Rule next = now.rule;
    changer.change(next);
    const Ticks heat = instance.period() / 10 * (how.tries - i) / how.tries;
    auto made = scheduler.run(next, now.made.step + changer.allowance(heat));
    if (!made) continue;
    now = {std::move(next), std::move(*made)};
    if (now.made.step < best.made.step) best = now;
  }
  return best;
}

}  // namespace trireme::schedule
