// Names of the operations, the text form of an action, and queries of stage programs.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/program/action.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace trireme::program {
namespace {

/// In the order of the enumeration.
constexpr std::array<std::string_view, static_cast<std::size_t>(Op::kAwaitState) + 1> kNames{
    "forward",
    "forward_keep",
    "forward_tape",
    "retape",
    "backward",
    "backward_input",
    "backward_weights",
    "drop",
    "offload",
    "prefetch",
    "offload_tape",
    "prefetch_tape",
    "load_input",
    "load_target",
    "read_loss",
    "send_output",
    "receive_input",
    "send_gradient",
    "receive_gradient",
    "compute",
    "gradient",
    "update",
    "reduce_gradients",
    "clip",
    "step",
    "release",
    "release_tape",
    "copy_in",
    "copy_in_tape",
    "await",
    "await_tape",
    "await_copy",
    "free",
    "weights_in",
    "weights_out",
    "weights_release",
    "weights_free",
    "await_weights",
    "gradients_in",
    "gradients_out",
    "gradients_release",
    "gradients_free",
    "await_gradients",
    "gradients_new",
    "note_norm",
    "state_in",
    "await_state"};

/// A whole number >= 0 that is all of `text`.
std::optional<int> number(std::string_view text);

[[noreturn]] void refuse(std::string_view text, std::string_view why);

}  // namespace

std::string_view name(Op op) {
  return kNames.at(static_cast<std::size_t>(op));
}

const std::vector<std::string>& op_names() {
  static const std::vector<std::string> names(kNames.begin(), kNames.end());
  return names;
}

std::optional<Op> op_named(std::string_view name) {
  const std::vector<std::string>& names = op_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Op>(found - names.begin());
}

bool is_forward(Op op) {
  return op == Op::kForward || op == Op::kForwardKeep || op == Op::kForwardTape ||
         op == Op::kRetape || op == Op::kCompute;
}

bool is_backward(Op op) {
  return op == Op::kBackward || op == Op::kBackwardInput;
}

bool adds_gradients(Op op) {
  return is_backward(op) || op == Op::kBackwardWeights || op == Op::kGradient;
}

bool is_send(Op op) {
  return op == Op::kSendOutput || op == Op::kSendGradient;
}

bool is_receive(Op op) {
  return op == Op::kReceiveInput || op == Op::kReceiveGradient;
}

bool is_of_stage(Op op) {
  return op <= Op::kPrefetchTape && op != Op::kBackwardInput && op != Op::kBackwardWeights;
}

bool is_of_pass(Op op) {
  return op < Op::kUpdate;
}

bool ends_step(Op op) {
  return op == Op::kReduceGradients || op == Op::kClip || op == Op::kStep;
}

bool is_placed_copy(Op op) {
  return op >= Op::kRelease && op <= Op::kFree;
}

bool moves_weights(Op op) {
  switch (op) {
    case Op::kWeightsIn:
    case Op::kWeightsOut:
    case Op::kWeightsRelease:
    case Op::kWeightsFree:
    case Op::kGradientsIn:
    case Op::kGradientsOut:
    case Op::kGradientsRelease:
    case Op::kGradientsFree:
    case Op::kGradientsNew:
      return true;
    default:
      return false;
  }
}

std::string to_text(const Action& action) {
  std::string text = std::to_string(action.micro_batch);
  text += ':';
  text += name(action.op);
  text += ' ';
  text += std::to_string(action.layer);
  return text;
}

Action parse_action(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::size_t space = text.find(' ');
  if (colon == std::string_view::npos || space == std::string_view::npos || space < colon)
    refuse(text, "its form is wrong");
  const std::string_view word = text.substr(colon + 1, space - colon - 1);
  const std::optional<int> micro_batch = number(text.substr(0, colon));
  const std::optional<int> layer = number(text.substr(space + 1));
  const std::optional<Op> op = op_named(word);
  if (!micro_batch) refuse(text, "its micro-batch is not a whole number from 0");
  if (!op)
    refuse(text, concat("there is no operation '", word, "'", did_you_mean(word, op_names())));
  if (!layer) refuse(text, "its layer is not a whole number from 0");
  return {*op, *layer, *micro_batch};
}

std::size_t output_made(const StageProgram& program) {
  const auto made =
      std::find_if(program.forward.rbegin(), program.forward.rend(), [&](const Action& action) {
        return is_forward(action.op) && action.layer == program.last_layer;
      });
  if (made == program.forward.rend()) return program.forward.size();
  return static_cast<std::size_t>(program.forward.rend() - made) - 1;
}

StageProgram moved_to(StageProgram program, int first_layer) {
  const int by = first_layer - program.first_layer;
  program.first_layer += by;
  program.last_layer += by;
  for (Action& action : program.forward) action.layer += by;
  for (Action& action : program.backward) action.layer += by;
  return program;
}

namespace {

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

void refuse(std::string_view text, std::string_view why) {
  throw InputError(concat("'", text, "' is not an action: ", why,
                          "; expected MICRO-BATCH:OPERATION LAYER, such as '2:backward 3'"));
}

}  // namespace
}  // namespace trireme::program
