// Lists of actions with the moves of streamed weights, run by a model of device and offload tier
// that knows which version of every tensor is where.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/program/weights.h"

#include "program/roll.h"

#include "trireme/core/text.h"
#include "trireme/program/generate.h"
#include "trireme/program/groups.h"
#include "trireme/program/updates.h"
#include "trireme/schedule/named.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace trireme::program {
namespace {

constexpr WeightsKind kStay = WeightsKind::kStay, kFrozen = WeightsKind::kFrozen,
                      kTrained = WeightsKind::kTrained;

/// A layer's weights (number of updates) or gradients (number of backwards added) in three places;
/// -1: nothing is there.
struct Tensor {
  int device = -1, tier = 0, latest = 0;
  bool is_leaving = false, is_coming = false;
};

class Machine {
 public:
  Machine(const std::vector<WeightsKind>& kinds, int micro_batches, bool lags)
      : kinds_(kinds), micro_batches_(micro_batches), lags_(lags) {}

  void begin(const HeldWeights& held) {
    for (const HeldLayer& one : held) {
      Tensor& weights = tensor(one.layer, false);
      if (one.weights && weights.device < 0) weights.device = weights.tier;
      Tensor& gradients = tensor(one.layer, true);
      if (one.gradients != HeldLayer::Gradients::kNone && gradients.device < 0)
        gradients.device = gradients.tier;
    }
  }
  void run(const Action& action) {
    const bool gradients = name(action.op).find("gradients") != std::string_view::npos;
    Tensor& of_layer = tensor(action.layer, gradients);
    switch (action.op) {
      case Op::kWeightsIn:
      case Op::kGradientsIn:
        EXPECT_LT(of_layer.device, 0);
        of_layer.device = of_layer.tier;
        of_layer.is_coming = true;
        return;
      case Op::kGradientsNew:
        of_layer.device = of_layer.latest = 0;
        return;
      case Op::kWeightsOut:
      case Op::kGradientsOut:
        of_layer.tier = std::exchange(of_layer.device, -1);
        of_layer.is_leaving = true;
        return;
      case Op::kWeightsRelease:
      case Op::kGradientsRelease:
        EXPECT_TRUE(std::exchange(of_layer.is_leaving, false));
        return;
      case Op::kWeightsFree:
      case Op::kGradientsFree:
        of_layer.device = -1;
        return;
      case Op::kAwaitWeights:
      case Op::kAwaitGradients:
        EXPECT_GE(of_layer.device, 0);
        of_layer.is_coming = false;
        return;
      case Op::kStep:
      case Op::kUpdate:
        return update(action);
      default:
        return use(action);
    }
  }
  int updates_of(int layer) { return tensor(layer, false).latest; }
  /// Layers with weights or gradients on the device.
  int layers_here() const {
    int count = 0;
    for (std::size_t layer = 0; layer < kinds_.size(); ++layer) {
      const auto has = [&](bool gradients) {
        const auto found = tensors_.find({static_cast<int>(layer), gradients});
        return found != tensors_.end() && found->second.device >= 0;
      };
      count += has(false) || has(true) ? 1 : 0;
    }
    return count;
  }

 private:
  Tensor& tensor(int layer, bool gradients) { return tensors_[{layer, gradients}]; }
  WeightsKind kind(int layer) const { return kinds_.at(static_cast<std::size_t>(layer)); }

  void expect_here(int layer, bool gradients) {
    const Tensor& used = tensor(layer, gradients);
    EXPECT_EQ(used.device, used.latest) << (gradients ? "gradients " : "weights ") << layer;
    EXPECT_FALSE(used.is_coming) << "is used before its copy in was awaited";
  }
  void update(const Action& action) {
    if (action.layer == 0) return;
    // Before the first step's forwards there is nothing to update.
    if (lags_ && action.op == Op::kUpdate && tensor(action.layer, true).latest == 0) return;
    expect_here(action.layer, false);
    expect_here(action.layer, true);
    EXPECT_EQ(tensor(action.layer, true).latest, micro_batches_);
    tensor(action.layer, false).device = ++tensor(action.layer, false).latest;
    tensor(action.layer, true).latest = 0;
    tensor(action.layer, true).device = 0;
  }
  void use(const Action& action) {
    if (!uses_weights(action.op) || kind(action.layer) == kStay) return;
    expect_here(action.layer, false);
    if (!adds_gradients(action.op) || kind(action.layer) != kTrained) return;
    Tensor& sums = tensor(action.layer, true);
    // The first backward overwrites what is there.
    EXPECT_GE(sums.device, 0);
    if (sums.latest > 0) expect_here(action.layer, true);
    sums.device = ++sums.latest;
  }

  std::vector<WeightsKind> kinds_;
  int micro_batches_;
  bool lags_;
  std::map<std::pair<int, bool>, Tensor> tensors_;
};

std::vector<Action> one_stage(const StageProgram& stage, int micro_batches) {
  return lower({.stages = {stage},
                .order = schedule::one_f_one_b({1, micro_batches}),
                .end = StepEnd::kReduceClipStep})
      .ranks[0];
}

std::string moves_of(const std::vector<Action>& actions) {
  std::vector<std::string> lines;
  for (const Action& action : actions)
    if (action.op != Op::kLoadInput && action.op != Op::kLoadTarget && action.op != Op::kReadLoss)
      lines.push_back(concat(name(action.op), " ", action.layer));
  return join(lines, ", ");
}

TEST(Weights, OfFrozenLayersComeWhileTheLayerBeforeIsUsedAndAreFreedAfter) {
  const auto actions =
      with_weights(one_stage(keep_all(1, 3), 1), {.kinds = {kStay, kFrozen, kFrozen, kFrozen}});
  EXPECT_EQ(moves_of(actions),
            "await_weights 1, forward_tape 1, weights_free 1, weights_in 3, await_weights 2, "
            "forward_tape 2, await_weights 3, forward_tape 3, backward 3, weights_free 3, "
            "weights_in 1, backward 2, await_weights 1, backward 1, reduce_gradients 0, clip 0, "
            "step 0");
  EXPECT_EQ(held_at_begin(actions), (HeldWeights{{1}, {2}}));
}

TEST(Weights, ThatStayAddNothing) {
  const std::vector<Action> actions = one_stage(recompute_all(1, 3), 2);
  EXPECT_EQ(with_weights(actions, {.kinds = std::vector(4, kStay)}), actions);
  EXPECT_EQ(with_weights(actions, {}), actions);
  EXPECT_TRUE(held_at_begin(actions).empty());
}

// With replicas a single layer's weights make room for nothing while its gradients are summed, and
// are copied out before, since the step before has changed them.
TEST(Weights, ThatTheStepBeforeHasChangedAreCopiedOut) {
  const auto actions =
      with_weights(one_stage(keep_all(1, 2), 1),
                   {.kinds = {kStay, kTrained, kStay}, .at_once = 2, .has_replicas = true});
  EXPECT_EQ(moves_of(actions),
            "await_weights 1, forward_tape 1, forward_tape 2, backward 2, await_gradients 1, "
            "backward 1, weights_out 1, reduce_gradients 0, reduce_gradients 1, note_norm 1, "
            "weights_release 1, weights_in 1, clip 0, step 0, await_weights 1, step 1");
}

TEST(Weights, AreTheLatestWhereverTheyAreUsedInEveryStepOfRandomPrograms) {
  Roll roll(7);
  int with_moves = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    SCOPED_TRACE(trial);
    const int layers = roll(1, 8), micro_batches = roll(1, 4), at_once = roll(2, 4);
    std::vector<WeightsKind> kinds{kStay};
    std::vector<int> trained;
    const bool all_trained = roll(0, 1) == 0;
    for (int i = 1; i <= layers; ++i) {
      kinds.push_back(all_trained ? kTrained : static_cast<WeightsKind>(roll(0, 2)));
      if (kinds.back() == kTrained) trained.push_back(i);
    }
    const StageProgram stage = roll(0, 1) == 0 ? keep_all(1, layers) : recompute_all(1, layers);
    const int group = roll(1, micro_batches);
    Program program =
        in_groups(lower({.stages = {stage},
                         .order = schedule::one_f_one_b({1, groups_of(micro_batches, group)}),
                         .end = StepEnd::kReduceClipStep}),
                  group, micro_batches);
    // Frozen streamed layers and overlapped updates do not go together.
    const bool mixed = std::count(kinds.begin(), kinds.end(), kFrozen) > 0;
    const auto place = static_cast<UpdatePlace>(mixed ? 0 : roll(0, 2));
    const std::vector<int> updated = updated_layers(trained, place, at_once);
    // Whole updates: what parts of one change is no version of its own here.
    program = with_updates(std::move(program), {updated}, place, kLeastAtOnce);
    const bool has_replicas = place != UpdatePlace::kInBackward && roll(0, 1) == 0;
    const std::vector<Action> actions = with_weights(
        program.ranks[0], {.kinds = kinds, .at_once = at_once, .has_replicas = has_replicas});
    with_moves += actions.size() > program.ranks[0].size() ? 1 : 0;

    constexpr int kSteps = 3;
    Machine machine(kinds, micro_batches, place == UpdatePlace::kInForward);
    for (int step = 0; step < kSteps; ++step) {
      machine.begin(held_at_begin(actions));
      for (const Action& action : actions) {
        machine.run(action);
        EXPECT_LE(machine.layers_here(), at_once);
      }
    }
    for (const int layer : trained) {
      const bool lags = place == UpdatePlace::kInForward &&
                        std::find(updated.begin(), updated.end(), layer) != updated.end();
      EXPECT_EQ(machine.updates_of(layer), lags ? kSteps - 1 : kSteps) << layer;
    }
    if (testing::Test::HasFailure()) {
      ADD_FAILURE() << moves_of(actions);
      return;
    }
  }
  EXPECT_GT(with_moves, 2000);
}

}  // namespace
}  // namespace trireme::program
