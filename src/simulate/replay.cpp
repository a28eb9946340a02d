// Replay of one micro-batch through one stage.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/simulate/replay.h"

#include "execution.h"

#include "trireme/chain/layer_range.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"

namespace trireme::simulate {

using program::Action;
using program::Op;
using program::StageProgram;

namespace {

/// Runs one list. In the forward list, x[last] is passed on once it was made: to the next stage or
/// to the loss, which leaves its gradient.
std::optional<Fault> run_list(Execution& execution, const StageProgram& program, bool in_backward,
                              Op goes_on);

/// The fault of a list that leaves something undone.
Fault unfinished(const StageProgram& program, bool in_backward, std::string reason);

/// What is left other than the gradient of x[first-1].
std::optional<std::string> left_over(const Ledger& ledger, const StageProgram& program);

const Action& action_at(const StageProgram& program, std::size_t index);

}  // namespace

std::string to_text(const Fault& fault) {
  const std::string_view part = fault.in_backward ? "backward" : "forward";
  if (fault.at_end) return concat("end of the ", part, " part: ", fault.reason);
  return concat("action ", fault.index, " of the ", part, " part, ", program::name(fault.action.op),
                " ", fault.action.layer, ": ", fault.reason);
}

Replay replay(const chain::Chain& chain, const StageProgram& program, const CopyLanes& lanes,
              const std::vector<LayerClocks>* clocks) {
  const int first = program.first_layer;
  const int last = program.last_layer;
  if (first < 1 || last < first || last > chain.length())
    throw InputError(concat("a program of ", layers_text(chain::LayerRange{first, last}),
                            " for a chain of ", chain.length()));
  Execution execution(chain, {.scope = {first, last, true}, .lanes = lanes, .clocks = clocks});
  const auto must = [&](Op op, int layer, std::size_t index) {
    const auto fault = execution.run({op, layer, 0}, index);
    ensure(!fault, fault ? *fault : "");
  };
  const bool with_loss = last == chain.length();
  const Op goes_on = with_loss ? Op::kReadLoss : Op::kSendOutput;
  Replay result;
  must(Op::kReceiveInput, first - 1, 0);
  if (with_loss) must(Op::kLoadTarget, last, 0);
  if ((result.fault = run_list(execution, program, false, goes_on))) return result;
  result.forward = execution.now();
  result.kept = execution.ledger().held();
  if (with_loss) {
    result.kept -= chain.output(last);  // the gradient, which is held already
  } else {
    must(Op::kReceiveGradient, last, program.forward.size());
  }
  if ((result.fault = run_list(execution, program, true, goes_on))) return result;
  if (auto left = left_over(execution.ledger(), program)) {
    result.fault = unfinished(program, true, std::move(*left));
    return result;
  }
  result.time = execution.now();
  result.backward = result.time - result.forward;
  result.recompute = execution.recompute();
  result.moved = execution.lanes().moved();
  result.peak = execution.lanes().peak().size;
  result.peak_at = action_at(program, execution.lanes().peak().index);
  return result;
}

namespace {

std::optional<Fault> run_list(Execution& execution, const StageProgram& program, bool in_backward,
                              Op goes_on) {
  const std::vector<Action>& actions = in_backward ? program.backward : program.forward;
  const std::size_t offset = in_backward ? program.forward.size() : 0;
  const std::size_t made = in_backward ? actions.size() : program::output_made(program);
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Action& action = actions[i];
    if (!is_of_stage(action.op))
      return Fault{in_backward, i, action, false,
                   concat(program::name(action.op), " is placed by lowering, not by a stage")};
    if (action.micro_batch != 0)
      return Fault{in_backward, i, action, false,
                   "a stage's program has actions of micro-batch 0 only"};
    std::optional<std::string> reason = execution.run(action, offset + i);
    if (!reason && i == made) reason = execution.run({goes_on, program.last_layer, 0}, offset + i);
    if (reason) return Fault{in_backward, i, action, false, std::move(*reason)};
  }
  if (!in_backward && made == actions.size())
    return unfinished(program, false, concat("x[", program.last_layer, "] was not made"));
  return std::nullopt;
}

Fault unfinished(const StageProgram& program, bool in_backward, std::string reason) {
  const std::vector<Action>& actions = in_backward ? program.backward : program.forward;
  return {in_backward, actions.size(), actions.empty() ? Action{} : actions.back(), true,
          std::move(reason)};
}

std::optional<std::string> left_over(const Ledger& ledger, const StageProgram& program) {
  for (const Value& value : ledger.values()) {
    if (value.kind == Value::Kind::kGradient && value.layer == program.first_layer - 1) continue;
    if (value.kind == Value::Kind::kTarget) continue;  // then the gradient of x[last] is left too
    return concat(name(value), value.offloaded ? " was never brought back" : " was never freed");
  }
  return std::nullopt;
}

const Action& action_at(const StageProgram& program, std::size_t index) {
  return index < program.forward.size() ? program.forward[index]
                                        : program.backward[index - program.forward.size()];
}

}  // namespace
}  // namespace trireme::simulate
