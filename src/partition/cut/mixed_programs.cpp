// With w in flight, of which a run program A and the others B in turns, a stage holds
//
//     a K_A + (w - a) K_B + the larger of what either needs beyond what it keeps
//
// and takes (a t_A + (w - a) t_B) / w for a micro-batch in the mean.
//
// SPDX-License-Identifier: Apache-2.0
#include "mixed_programs.h"

#include "judge/tighten.h"
#include "stage/stage_options.h"

#include "trireme/program/generate.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace trireme::partition {
namespace {

/// Memories at which a stage is asked for a program.
constexpr int kLevels = 16;
/// How often a stage that the simulator finds over its budget is mixed again with less.
constexpr int kRounds = 3;

/// What the micro-batches of a stage run.
struct Choice {
  program::StageProgram program;
  program::Mix mix = {};

  bool is_mixed() const { return !mix.cycle.empty(); }
};

/// `count` of `size` places, as evenly as can be.
std::vector<int> cycle_of(int size, int count) {
  std::vector<int> cycle;
  for (int i = 0; i < size; ++i) cycle.push_back((i + 1) * count / size > i * count / size ? 1 : 0);
  return cycle;
}

class Mixer {
 public:
  Mixer(const StageRoom& room, StagePolicy& policy, const plan::Plan& plan)
      : room_(room), plan_(plan), less_(plan.stages.size()), options_(room, policy, kLevels) {
    for (const plan::StagePlan& stage : plan.stages) plain_.push_back({stage.program});
    choices_ = plain_;
  }

  /// All stages that can are mixed, for they wait for one another; then each goes back to one
  /// program where that is no slower.
  std::optional<plan::Plan> faster() {
    for (std::size_t k = 0; k < choices_.size(); ++k) choices_[k] = mixed(k);
    std::optional<plan::Plan> best = fitting();
    for (std::size_t k = 0; best && k < choices_.size(); ++k) {
      if (!choices_[k].is_mixed()) continue;
      const Choice with = std::exchange(choices_[k], plain_[k]);
      Simulated without = judge();
      const Bytes over = excess(room_.question(), without.simulation)[k];
      if (over == Bytes(0) && without.plan.step <= best->step * (1 + kGain))
        best = std::move(without.plan);
      else
        choices_[k] = with;
    }
    if (!best || best->step >= plan_.step * (1 - kGain)) return std::nullopt;
    return best;
  }

 private:
  /// The plan with `choices_` within every budget, stages that cannot be mixed as they were.
  std::optional<plan::Plan> fitting() {
    std::vector<Bytes> less = less_;
    const auto make = [&](const std::vector<Bytes>& now_less) -> std::optional<Simulated> {
      for (std::size_t k = 0; k < choices_.size(); ++k)
        if (now_less[k] != std::exchange(less_[k], now_less[k])) choices_[k] = mixed(k);
      const bool any = std::any_of(choices_.begin(), choices_.end(),
                                   [](const Choice& choice) { return choice.is_mixed(); });
      return any ? std::optional(judge()) : std::nullopt;
    };
    auto found = tightened(room_.question(), kRounds, less, make);
    return found ? std::optional(std::move(found->plan)) : std::nullopt;
  }

  /// What takes the least mean time in what `less_` leaves of a stage's memory, or one program.
  Choice mixed(std::size_t stage) {
    const program::StageProgram& now = plan_.stages[stage].program;
    const StageQuestion asked =
        room_.asked(static_cast<int>(stage), now.first_layer, now.last_layer);
    const int w = asked.in_flight;
    if (w < 2 || asked.memory >= kUnlimited) return plain_[stage];
    const chain::Chain& chain = room_.question().chain;
    const program::StageProgram keep_all = program::keep_all(asked.first, asked.last);
    const Bytes most = prepared(chain, keep_all).needs.memory(w);
    const std::vector<Prepared>& all =
        options_.several(asked.first, asked.last, most, w, StageOptions::How::kCareful);
    double least = prepared(chain, now).needs.time() * (1 - kGain);
    Choice best = plain_[stage];
    for (const Prepared& more : all) {
      for (const Prepared& fewer : all) {
        const StageNeeds &a = more.needs, &b = fewer.needs;
        if (a.kept <= b.kept || a.time() >= b.time()) continue;
        const Bytes room =
            asked.memory - less_[stage] - std::max(a.beyond_kept(), b.beyond_kept()) - b.kept * w;
        const auto count = std::min<std::int64_t>(w - 1, room.count() / (a.kept - b.kept).count());
        const double mean =
            (static_cast<double>(count) * a.time() + static_cast<double>(w - count) * b.time()) / w;
        if (room < Bytes(0) || count == 0 || mean >= least) continue;
        least = mean;
        best = {program::moved_to(fewer.program, asked.first),
                {.others = {program::moved_to(more.program, asked.first)},
                 .cycle = cycle_of(w, static_cast<int>(count))}};
      }
    }
    return best;
  }

  Simulated judge() const {
    std::vector<program::StageProgram> programs;
    std::vector<program::Mix> mixes;
    for (const Choice& choice : choices_) {
      programs.push_back(choice.program);
      mixes.push_back(choice.mix);
    }
    return judged(room_.question(), plan_.solver, std::move(programs), std::move(mixes));
  }

  const StageRoom& room_;
  const plan::Plan& plan_;
  std::vector<Choice> plain_, choices_;  // by stage, as the others
  std::vector<Bytes> less_;
  StageOptions options_;
};

}  // namespace

bool can_be_mixed(const plan::Plan& plan) {
  const bool moves = std::any_of(
      plan.stages.begin(), plan.stages.end(),
      [](const plan::StagePlan& stage) { return stage.predicted.offloaded > Bytes(0); });
  return plan.recompute > Seconds(0) && plan::has_rank_for_each_stage(plan) && plan.turns.empty() &&
         !moves && !plan::has_mixes(plan);
}

std::optional<plan::Plan> with_mixed_programs(const StageRoom& room, StagePolicy& policy,
                                              const plan::Plan& plan) {
  if (room.question().schedule != "1f1b") return Mixer(room, policy, plan).faster();
  Question question = room.question();
  question.in_flight.clear();
  for (std::size_t k = 0; k < plan.stages.size(); ++k)
    question.in_flight.push_back(plan::in_flight(plan, k));
  const StageRoom same(question);
  return Mixer(same, policy, plan).faster();
}

}  // namespace trireme::partition
