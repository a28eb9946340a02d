// SPDX-License-Identifier: Apache-2.0
#include "joint_copies.h"

#include <algorithm>
#include <utility>

namespace trireme::partition {
namespace {

using How = PlanBuilder::How;

/// Cuts tried.
constexpr int kMostCuts = 16;

std::size_t slowest_stage(const plan::Plan& plan) {
  const auto is_faster = [](const plan::StagePlan& a, const plan::StagePlan& b) {
    return a.predicted.forward + a.predicted.backward < b.predicted.forward + b.predicted.backward;
  };
  return static_cast<std::size_t>(
      std::max_element(plan.stages.begin(), plan.stages.end(), is_faster) - plan.stages.begin());
}

class CopiesOfJoint {
 public:
  CopiesOfJoint(const StageRoom& room, PlanBuilder& builder, const Found& plain)
      : room_(room), builder_(builder), plain_(plain), search_(room, builder.policy("joint")) {}

  Found best(const std::vector<Cut>& cuts) {
    for (const Cut& cut : first_cuts(cuts)) improve(cut);
    if (!found_.plan) return {};
    // The last stage's copies are searched.
    const program::StageProgram& last = found_.plan->stages.back().program;
    const bool is_quick = last.last_layer - last.first_layer < kFewLayers;
    if (is_quick && !room_.question().cut) climb();
    // Where copies are not worth it, recomputation that hides behind a wait may be.
    if (const auto other = builder_.built("joint", found_.cut, How::kChosen))
      found_.plan = builder_.mixed(*std::move(found_.plan), *other);
    return std::move(found_);
  }

 private:
  /// Copies take long to plan, so only the best cut without them is looked at, and where copies may
  /// spare all recomputation, the best one that keeps everything without a budget.
  std::vector<Cut> first_cuts(std::vector<Cut> cuts) {
    cuts.resize(std::min<std::size_t>(1, cuts.size()));
    if (room_.question().cut) return cuts;
    Question rich = room_.question();
    for (chain::RankSpec& rank : rich.platform.ranks) rank.memory = Bytes(0);
    const StageRoom room(rich);
    for (Cut& cut : CutSearch(room, builder_.policy("keep_all")).candidates(1)) {
      if (std::find(cuts.begin(), cuts.end(), cut) == cuts.end()) cuts.push_back(std::move(cut));
    }
    return cuts;
  }

  /// Keeps the plan on that cut if it is the best so far.
  bool improve(const Cut& cut) {
    const Seconds least(search_.ideal_step(cut));
    const auto is_hopeless = [&](const Found& beside) {
      return beside.plan && least >= beside.plan->step * (1 - kGain);
    };
    if (is_hopeless(plain_) || is_hopeless(found_) || left_-- <= 0) return false;
    return found_.take(builder_.built("joint", cut, How::kCopies), cut);
  }

  /// Moves a layer away from the slowest stage, to either side, while the step gets shorter.
  void climb() {
    for (bool better = true; better;) {
      better = false;
      const std::size_t slowest = slowest_stage(*found_.plan);
      const program::StageProgram& program = found_.plan->stages[slowest].program;
      if (program.last_layer == program.first_layer) return;
      Cut less_at_end = found_.cut, less_at_begin = found_.cut;
      if (slowest + 1 < found_.cut.size()) {
        --less_at_end[slowest];
        better = improve(less_at_end);
      }
      if (!better && slowest > 0) {
        ++less_at_begin[slowest - 1];
        better = improve(less_at_begin);
      }
    }
  }

  const StageRoom& room_;
  PlanBuilder& builder_;
  const Found& plain_;
  CutSearch search_;
  Found found_;
  int left_ = kMostCuts;
};

}  // namespace

Found joint_with_copies(const StageRoom& room, PlanBuilder& builder, const Found& plain,
                        const std::vector<Cut>& cuts) {
  return CopiesOfJoint(room, builder, plain).best(cuts);
}

}  // namespace trireme::partition
