// Lowering of passes to actions. Only here are roles decided: who loads, who sends to whom, who
// reads the loss.
// SPDX-License-Identifier: Apache-2.0
#include "receives.h"

#include "trireme/chain/layer_range.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/program/generate.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace trireme::program {
namespace {

/// A stage's program with its role in the pipeline.
struct Role {
  const StageProgram* stage = nullptr;
  bool loads_input = false, reads_loss = false;
  bool receives_input = false, sends_output = false;  // false: the neighbour is on the same rank
  std::size_t output_made = 0;      // index in `forward` after which x[last] is sent or read
  std::size_t gradient_needed = 0;  // index in `backward` before which x[last]'s gradient comes in
  std::size_t gradient_made = 0;  // index in `backward` after which x[first-1]'s gradient goes out
};

void require_sound(const Lowering& lowering);
void require_sound(const Mix& mix, const StageProgram& stage, std::size_t k);

schedule::Placement placement_of(const Lowering& lowering);
/// Whether the order has backwards.
bool trains(const schedule::Order& order);

/// By stage and number of its program.
std::vector<std::vector<Role>> roles_of(const Lowering& lowering);
Role role_of(const Lowering& lowering, std::size_t k, const StageProgram& program);
const Mix& mix_of(const Lowering& lowering, std::size_t k);
/// Index of a layer's backward in stage `k`.
std::size_t backward_of(const StageProgram& stage, int layer, std::size_t k);

/// Appends the actions of a pass.
void append(schedule::Pass::Kind kind, const Role& role, int micro_batch,
            std::vector<Action>& actions);
void append_forward(const Role& role, int micro_batch, std::vector<Action>& actions);
/// The whole backward, or with `backward` as that of the input.
void append_backward(const Role& role, Op backward, int micro_batch, std::vector<Action>& actions);

}  // namespace

Program lower(const Lowering& lowering) {
  require_sound(lowering);
  const schedule::Placement placement = placement_of(lowering);
  schedule::require_sound(lowering.order, placement);
  Program program;
  program.layers = lowering.stages.back().last_layer;
  program.micro_batches = schedule::micro_batches_of(lowering.order, placement);
  program.rank_of_layer.push_back(placement.front());
  for (std::size_t k = 0; k < lowering.stages.size(); ++k) {
    const StageProgram& stage = lowering.stages[k];
    program.rank_of_layer.insert(program.rank_of_layer.end(),
                                 static_cast<std::size_t>(stage.last_layer) -
                                     static_cast<std::size_t>(stage.first_layer) + 1,
                                 placement[k]);
  }
  program.ranks.resize(lowering.order.size());

  const std::vector<std::vector<Role>> roles = roles_of(lowering);
  for (std::size_t rank = 0; rank < lowering.order.size(); ++rank) {
    std::vector<Action>& actions = program.ranks[rank];
    const std::vector<schedule::Pass>& passes = lowering.order[rank];
    const std::vector<int> micro_batches = schedule::micro_batches_of(passes);
    for (std::size_t i = 0; i < passes.size(); ++i) {
      const auto stage = static_cast<std::size_t>(passes[i].chunk);
      const int m = micro_batches[i];
      append(passes[i].kind, roles[stage][mix_of(lowering, stage).number_of(m)], m, actions);
    }
    if (lowering.end == StepEnd::kReduceClipStep)
      actions.insert(actions.end(), {{Op::kReduceGradients}, {Op::kClip}, {Op::kStep}});
  }
  if (schedule::shares_ranks(placement)) receive_in_order_of_sending(program);
  return program;
}

namespace {

void require_sound(const Lowering& lowering) {
  const std::size_t count = lowering.stages.size();
  if (count == 0) throw InputError("a pipeline without stages; must have at least one");
  if (!lowering.placement.empty() && lowering.placement.size() != count)
    throw InputError(concat("ranks for ", lowering.placement.size(), " stages, must be for ", count,
                            " (or none: stage k on rank k)"));
  int next = 1;
  for (std::size_t k = 0; k < count; ++k) {
    const StageProgram& stage = lowering.stages[k];
    if (stage.first_layer != next)
      throw InputError(concat("stage ", k, " begins with layer ", stage.first_layer, ", must be ",
                              next, ": stages follow one another without gaps"));
    if (stage.last_layer < stage.first_layer)
      throw InputError(concat("stage ", k, " has layers ", stage.first_layer, "..",
                              stage.last_layer, ", must have at least one"));
    if (!lowering.placement.empty() && lowering.placement[k] < 0)
      throw InputError(concat("stage ", k, " is on rank ", lowering.placement[k]));
    next = stage.last_layer + 1;
  }
  if (!lowering.mixes.empty() && lowering.mixes.size() != count)
    throw InputError(concat("mixed programs of ", lowering.mixes.size(), " stages, must be of ",
                            count, " (or none)"));
  for (std::size_t k = 0; k < lowering.mixes.size(); ++k)
    require_sound(lowering.mixes[k], lowering.stages[k], k);
}

void require_sound(const Mix& mix, const StageProgram& stage, std::size_t k) {
  for (const StageProgram& other : mix.others) {
    if (other.first_layer != stage.first_layer || other.last_layer != stage.last_layer)
      throw InputError(concat("stage ", k, " mixes programs of ",
                              layers_text(chain::LayerRange{stage.first_layer, stage.last_layer}),
                              " and ",
                              layers_text(chain::LayerRange{other.first_layer, other.last_layer}),
                              ": must be of the same layers"));
  }
  for (const int number : mix.cycle) {
    if (number < 0 || std::cmp_greater(number, mix.others.size()))
      throw InputError(concat("stage ", k, " has program ", number, " in its cycle, must be 0 to ",
                              mix.others.size()));
  }
}

schedule::Placement placement_of(const Lowering& lowering) {
  return lowering.placement.empty() ? schedule::one_each(static_cast<int>(lowering.stages.size()))
                                    : lowering.placement;
}

bool trains(const schedule::Order& order) {
  return std::any_of(order.begin(), order.end(), [](const std::vector<schedule::Pass>& passes) {
    return std::any_of(passes.begin(), passes.end(),
                       [](const schedule::Pass& pass) { return schedule::is_backward(pass.kind); });
  });
}

std::vector<std::vector<Role>> roles_of(const Lowering& lowering) {
  std::vector<std::vector<Role>> roles(lowering.stages.size());
  for (std::size_t k = 0; k < roles.size(); ++k) {
    for (const StageProgram* const program : mix_of(lowering, k).programs(lowering.stages[k]))
      roles[k].push_back(role_of(lowering, k, *program));
  }
  return roles;
}

const Mix& mix_of(const Lowering& lowering, std::size_t k) {
  static const Mix none;
  return lowering.mixes.empty() ? none : lowering.mixes[k];
}

Role role_of(const Lowering& lowering, std::size_t k, const StageProgram& program) {
  const std::size_t count = lowering.stages.size();
  Role role{&program};
  role.loads_input = k == 0;
  role.reads_loss = k + 1 == count;
  const schedule::Placement placement = placement_of(lowering);
  role.receives_input = k > 0 && placement[k - 1] != placement[k];
  role.sends_output = k + 1 < count && placement[k + 1] != placement[k];
  role.output_made = output_made(program);
  if (role.output_made == program.forward.size())
    throw InputError(
        concat("stage ", k, ": its forward part never runs its last layer, ", program.last_layer));
  if (trains(lowering.order)) {
    role.gradient_needed = backward_of(program, program.last_layer, k);
    role.gradient_made = backward_of(program, program.first_layer, k);
  }
  return role;
}

std::size_t backward_of(const StageProgram& stage, int layer, std::size_t k) {
  const auto found = std::find_if(
      stage.backward.begin(), stage.backward.end(),
      [&](const Action& action) { return action.op == Op::kBackward && action.layer == layer; });
  if (found == stage.backward.end())
    throw InputError(concat("stage ", k, ": its backward part never runs backward ", layer));
  return static_cast<std::size_t>(found - stage.backward.begin());
}

void append(schedule::Pass::Kind kind, const Role& role, int micro_batch,
            std::vector<Action>& actions) {
  switch (kind) {
    case schedule::Pass::Kind::kForward:
      return append_forward(role, micro_batch, actions);
    case schedule::Pass::Kind::kBackward:
      return append_backward(role, Op::kBackward, micro_batch, actions);
    case schedule::Pass::Kind::kBackwardInput:
      return append_backward(role, Op::kBackwardInput, micro_batch, actions);
    case schedule::Pass::Kind::kBackwardWeights:
      for (const Action& action : role.stage->backward)
        if (action.op == Op::kBackward)
          actions.push_back({Op::kBackwardWeights, action.layer, micro_batch});
  }
}

void append_forward(const Role& role, int micro_batch, std::vector<Action>& actions) {
  const StageProgram& stage = *role.stage;
  const auto emit = [&](Op op, int layer) { actions.push_back({op, layer, micro_batch}); };
  if (role.loads_input) emit(Op::kLoadInput, 0);
  if (role.reads_loss) emit(Op::kLoadTarget, stage.last_layer);
  if (role.receives_input) emit(Op::kReceiveInput, stage.first_layer - 1);
  for (std::size_t i = 0; i < stage.forward.size(); ++i) {
    emit(stage.forward[i].op, stage.forward[i].layer);
    if (i != role.output_made) continue;
    if (role.sends_output) emit(Op::kSendOutput, stage.last_layer);
    if (role.reads_loss) emit(Op::kReadLoss, stage.last_layer);
  }
}

void append_backward(const Role& role, Op backward, int micro_batch, std::vector<Action>& actions) {
  const StageProgram& stage = *role.stage;
  const auto emit = [&](Op op, int layer) { actions.push_back({op, layer, micro_batch}); };
  for (std::size_t i = 0; i < stage.backward.size(); ++i) {
    if (role.sends_output && i == role.gradient_needed)
      emit(Op::kReceiveGradient, stage.last_layer);
    const Op op = stage.backward[i].op;
    emit(op == Op::kBackward ? backward : op, stage.backward[i].layer);
    if (role.receives_input && i == role.gradient_made)
      emit(Op::kSendGradient, stage.first_layer - 1);
  }
}

}  // namespace
}  // namespace trireme::program
