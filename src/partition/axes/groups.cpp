// Size of breadth-first groups of micro-batches: streamed weights are copied once per group and
// use, while the values kept between layers are held for the whole group.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/program/groups.h"

#include "axis.h"
#include "judge/judge.h"
#include "memory/offload.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace trireme::partition {
namespace {

constexpr int kSizesAtOnce = 2;
/// Larger sizes are not tried after one that took this factor longer than the fastest smaller one.
constexpr double kHopeless = 1.3;
/// The same over all groups simulated so far, where a climb begins at other choices.
constexpr double kHopelessElsewhere = 1.1;

/// Group sizes in ascending order: the number of groups halves each time, with the least size that
/// gives that number.
std::vector<int> sizes_of(int micro_batches) {
  std::vector<int> sizes;
  for (int groups = micro_batches; groups > 1;) {
    groups = program::groups_of(groups, 2);
    sizes.push_back(program::groups_of(micro_batches, groups));
  }
  return sizes;
}

/// The next larger sizes to try.
std::vector<Choices> larger(const Scene& scene, const Choices& base) {
  std::vector<Choices> next;
  Seconds least = scene.best.step();
  for (const int size : sizes_of(scene.question.micro_batches)) {
    Choices choices = base;
    choices.group = size;
    const Judged* const known = scene.log.find(choices);
    if (known != nullptr) {
      const bool is_beyond = size > scene.best.choices.group;
      if (is_beyond && (known->plan() == nullptr || known->step() > least * kHopeless)) break;
      least = std::min(least, known->step());
    } else if (!scene.log.is_settled(choices)) {
      next.push_back(std::move(choices));
      if (next.size() == kSizesAtOnce) break;
    }
  }
  return next;
}

/// The best simulated group size for these choices.
const Judged* best_of(const Log& log, const Choices& base) {
  return log.best_where([&](const Judged& one) {
    Choices alone = one.choices;
    alone.group = base.group;
    return one.choices.group > 1 && alone == base;
  });
}

/// The fastest group size for `base`, combined with the fewer streamed layers of the best choices.
std::optional<Choices> with_fewer_streamed(const Scene& scene, const Choices& base) {
  const Choices& best = scene.best.choices;
  if (best.group > 1 || best.streamed.empty() || best.streamed == base.streamed)
    return std::nullopt;
  const Judged* const fastest = best_of(scene.log, base);
  if (fastest == nullptr || fastest->plan() == nullptr) return std::nullopt;
  Choices fewer = best;
  fewer.group = fastest->choices.group;
  return fewer;
}

/// The best choices with the next larger size, unless it was simulated: what has changed since
/// sizes were tried, such as the number of streamed layers on the device, may have made room for
/// it.
std::optional<Choices> next_larger(const Scene& scene) {
  Choices larger = scene.best.choices;
  for (const int size : sizes_of(scene.question.micro_batches)) {
    if (size <= scene.best.choices.group) continue;
    larger.group = size;
    if (!scene.log.is_settled(larger)) return larger;
    break;
  }
  return std::nullopt;
}

/// Whether groups were simulated only for other choices, and none was nearly as fast as the best.
bool are_hopeless(const Scene& scene, const Choices& base) {
  if (best_of(scene.log, base) != nullptr) return false;
  const Judged* const other =
      scene.log.best_where([](const Judged& one) { return one.choices.group > 1; });
  return other != nullptr && other->plan() != nullptr &&
         other->step() > scene.best.step() * kHopelessElsewhere;
}

std::vector<Choices> moves(const Scene& scene) {
  const plan::Plan* const plan = scene.best.plan();
  if (plan != nullptr && keeps_everything(*plan) && streamed_by(*plan).empty()) return {};
  const int micro_batches = scene.question.micro_batches;
  // Groups pay for copies per use, so they are tried with as much streamed as possible.
  Choices base = streaming(scene.question, scene.best.choices, streamable(scene.question));
  base.group = 1;
  if (base.streamed.empty() || are_hopeless(scene, base)) return {};
  if (scene.round == 0) {
    if (auto next = larger(scene, base); !next.empty()) return next;
    if (auto fewer = with_fewer_streamed(scene, base)) return {*std::move(fewer)};
  }
  if (plan == nullptr || plan->group == 1) return {};
  if (auto next = next_larger(scene)) return {*std::move(next)};
  // Between sizes, by the number of groups.
  const auto groups = [&](int size) { return program::groups_of(micro_batches, size); };
  return along(
      {.low = 1,
       .high = static_cast<double>(micro_batches),
       .finest = 2,
       .at =
           [&](double number) {
             Choices choices = scene.best.choices;
             choices.group = groups(std::max(1, static_cast<int>(number)));
             return choices;
           },
       .asked = [&](const Choices& choices) { return static_cast<double>(groups(choices.group)); }},
      {.question = scene.question,
       .log = scene.log,
       .best = scene.best,
       .round = scene.round + 1,
       .misses = scene.misses});
}

}  // namespace

const Axis kGroups{.name = "breadth-first micro-batches",
                   .without = "micro-batches one by one",
                   .is_open =
                       [](const Question& question) {
                         return !question.group && !has_named_schedule(question) &&
                                question.micro_batches > 1 && !streamable(question).empty();
                       },
                   .moves = moves,
                   .is_used = [](const Judged& judged) { return judged.choices.group > 1; },
                   .most_looks = 6,
                   .most_looks_at_large = 4,
                   .least_gain = 0.01,
                   .reason = "groups take more room in the offload tier"};

}  // namespace trireme::partition
