// Stages that mix two programs. With w micro-batches in flight, a of them with program A and the
// others with B in turns, a stage holds
//
//     a K_A + (w - a) K_B + the larger of what either needs beyond what it keeps
//
// and takes (a t_A + (w - a) t_B) / w per micro-batch in the mean.
//
// SPDX-License-Identifier: Apache-2.0
#include "judge/judge.h"
#include "plan_builder.h"
#include "stage/stage_options.h"

#include "trireme/program/generate.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace trireme::partition {
namespace {

/// Memory sizes for which a stage's programs are made.
constexpr int kLevels = 16;
/// Most retries with less memory where the simulator finds a stage over its budget.
constexpr int kRounds = 3;

/// Program or mix of a stage.
struct Choice {
  program::StageProgram program;
  program::Mix mix = {};

  bool is_mixed() const { return !mix.cycle.empty(); }
};

/// A cycle of `size` places with `count` ones, as evenly as possible.
std::vector<int> cycle_of(int size, int count) {
  std::vector<int> cycle;
  for (int i = 0; i < size; ++i) cycle.push_back((i + 1) * count / size > i * count / size ? 1 : 0);
  return cycle;
}

/// The mix with the least mean time in the memory of stage `k` less `less`; a single program where
/// that is as good.
Choice choice_for(const StageRoom& room, StageOptions& options, const program::StageProgram& now,
                  int k, Bytes less) {
  const StageQuestion asked = room.asked(k, {now.first_layer, now.last_layer});
  const int w = asked.in_flight;
  Choice best{now};
  if (w < 2 || asked.memory >= kUnlimited) return best;
  const chain::Chain& chain = room.question().chain;
  const program::StageProgram keep_all = program::keep_all(now.first_layer, now.last_layer);
  const Bytes most = prepared(chain, keep_all).needs.memory(w);
  const std::vector<Prepared>& all =
      options.several(asked.layers, most, w, StageOptions::How::kCareful);
  Seconds least = prepared(chain, now).needs.time() * (1 - kGain);
  for (const Prepared& more : all) {
    for (const Prepared& fewer : all) {
      const StageNeeds &a = more.needs, &b = fewer.needs;
      if (a.kept <= b.kept || a.time() >= b.time()) continue;
      const Bytes left =
          asked.memory - less - std::max(a.beyond_kept(), b.beyond_kept()) - b.kept * w;
      const auto count = std::min<std::int64_t>(w - 1, left.count() / (a.kept - b.kept).count());
      const Seconds mean =
          (static_cast<double>(count) * a.time() + static_cast<double>(w - count) * b.time()) / w;
      if (left < Bytes(0) || count == 0 || mean >= least) continue;
      least = mean;
      best = {program::moved_to(fewer.program, now.first_layer),
              {.others = {program::moved_to(more.program, now.first_layer)},
               .cycle = cycle_of(w, static_cast<int>(count))}};
    }
  }
  return best;
}

/// Mixes programs in all stages that can, since stages wait for one another; then each goes back to
/// one program where that is no slower.
std::optional<plan::Plan> mixed(const StageRoom& room, StagePolicy& policy,
                                const plan::Plan& plan) {
  StageOptions options(room, policy, kLevels);
  std::vector<Choice> choices(plan.stages.size());
  const auto judge = [&] {
    std::vector<program::StageProgram> programs;
    std::vector<program::Mix> mixes;
    for (const Choice& choice : choices) {
      programs.push_back(choice.program);
      mixes.push_back(choice.mix);
    }
    return judged(room.question(), plan.solver, std::move(programs), std::move(mixes));
  };
  const auto make = [&](const std::vector<Bytes>& less) -> std::optional<Simulated> {
    bool any = false;
    for (int k = 0; k < room.stages(); ++k) {
      choices[at(k)] = choice_for(room, options, plan.stages[at(k)].program, k, less[at(k)]);
      any = any || choices[at(k)].is_mixed();
    }
    return any ? std::optional(judge()) : std::nullopt;
  };
  std::vector<Bytes> less(choices.size());
  auto best = tightened(room.question(), kRounds, less, make);
  if (!best) return std::nullopt;
  for (std::size_t k = 0; k < choices.size(); ++k) {
    if (!choices[k].is_mixed()) continue;
    const Choice with = std::exchange(choices[k], {plan.stages[k].program});
    Simulated without = judge();
    const Bytes over = excess(room.question(), without.simulation)[k];
    if (over == Bytes(0) && without.plan.step <= best->plan.step * (1 + kGain))
      best = std::move(without);
    else
      choices[k] = with;
  }
  if (best->plan.step >= plan.step * (1 - kGain)) return std::nullopt;
  return std::move(best->plan);
}

}  // namespace

bool can_be_mixed(const plan::Plan& plan) {
  const bool moves = std::any_of(
      plan.stages.begin(), plan.stages.end(),
      [](const plan::StagePlan& stage) { return stage.predicted.offloaded > Bytes(0); });
  return plan.recompute > Seconds(0) && plan::has_rank_for_each_stage(plan) && !moves &&
         !plan::has_mixes(plan);
}

std::optional<plan::Plan> with_mixed_programs(const StageRoom& room, StagePolicy& policy,
                                              const plan::Plan& plan) {
  if (room.question().schedule != "1f1b") return mixed(room, policy, plan);
  Question question = room.question();
  question.in_flight = plan::in_flight(plan);
  const StageRoom same(question);
  return mixed(same, policy, plan);
}

}  // namespace trireme::partition
