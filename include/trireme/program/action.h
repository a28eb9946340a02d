// Actions and programs: a schedule is data, and nothing else decides order.
//
// Read an action aloud: `2:backward 3` is "the backward of layer 3 for micro-batch 2".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::program {

/// What an action does to its rank. x[i] is the output of layer i, x[0] the chain's input.
enum class Op {
  kForward,      ///< untaped forward of i; the input x[i-1] is dropped if held by itself
  kForwardKeep,  ///< untaped forward of i; the input stays
  kForwardTape,  ///< taped forward of i; the input stays
  kRetape,    ///< the tape of i again, without x[i], which nobody reads any more; the input stays
  kBackward,  ///< backward of i: frees its tape, the gradient of x[i], an x[i-1] held by itself
  kBackwardInput,    ///< the same, but for the gradients of weights that may wait: it leaves what
                     ///< these need
  kBackwardWeights,  ///< the gradients of weights that have waited since backward_input of i
  kDrop,             ///< frees the standalone x[i]
  kOffload,          ///< x[i] leaves to the offload tier on the out lane
  kPrefetch,         ///< x[i] returns on the in lane
  kOffloadTape,      ///< the tape of i leaves
  kPrefetchTape,     ///< the tape of i returns
  kLoadInput,        ///< x[0] of the micro-batch is loaded (layer 0)
  kLoadTarget,       ///< what the last layer compares with is loaded (layer L)
  kReadLoss,         ///< x[L] joins the step's loss and gives way to its gradient (layer L)
  kSendOutput,       ///< x[i] goes to the rank of layer i+1 and is given away
  kReceiveInput,     ///< x[i] comes from the rank of layer i
  kSendGradient,     ///< the gradient of x[i] goes to the rank of layer i and is given away
  kReceiveGradient,  ///< the gradient of x[i] comes from the rank of layer i+1
  kUpdate,  ///< a part of the optimizer step of layer i alone, which `step` then leaves out
  kReduceGradients,  ///< tied weights are added over their uses, then all gradients over the
                     ///< replicas (layer 0)
  kClip,             ///< global norm over all stages (layer 0)
  kStep,             ///< optimizer step; gradients are zero afterwards (layer 0)
};

/// One action: `layer` is the i of the op, `micro_batch` 0-based (0 for the end of a step; of the
/// parts of an update, which one).
struct Action {
  Op op{};
  int layer = 0;
  int micro_batch = 0;

  bool operator==(const Action&) const = default;
};

/// "forward_tape", as in plan files and texts.
std::string_view name(Op op);
std::optional<Op> op_named(std::string_view name);
/// Every op's name, in the order of the enumeration.
const std::vector<std::string>& op_names();

/// Whether it runs a layer forward, taped or not, to its end or not.
bool is_forward(Op op);
/// Whether it gives the gradient of a layer's input: backward, backward_input.
bool is_backward(Op op);
/// Whether it adds to gradients of weights: these two and backward_weights.
bool adds_gradients(Op op);
/// send_output, send_gradient; receive_input, receive_gradient.
bool is_send(Op op);
bool is_receive(Op op);

/// reduce_gradients, clip, step.
bool ends_step(Op op);

/// "2:backward 3".
std::string to_text(const Action& action);
/// The reverse; throws InputError that says what was expected.
Action parse_action(std::string_view text);

/// What a stage does for one micro-batch; actions carry micro-batch 0. `forward` ends with x[last]
/// made, `backward` begins with the gradient of x[last] there. A stage may keep anything in
/// between.
struct StageProgram {
  int first_layer = 1;
  int last_layer = 1;
  std::vector<Action> forward;
  std::vector<Action> backward;

  bool operator==(const StageProgram&) const = default;
};

/// Where in the forward list x[last] is made for the last time, whereupon it goes on: to the next
/// stage or into the loss. The list's length: nowhere.
std::size_t output_made(const StageProgram& program);

/// The program moved to another run of layers, of which `first_layer` is the first.
StageProgram moved_to(StageProgram program, int first_layer);

/// A stage whose micro-batches do not all run the same program: micro-batch m runs number
/// cycle[m % cycle.size()], 0 being the stage's own, i others[i - 1]. Without a cycle all run the
/// stage's own. With as many places in the cycle as there are micro-batches in flight, a stage
/// always holds what one round of it keeps.
struct Mix {
  std::vector<StageProgram> others;
  std::vector<int> cycle;

  std::size_t number_of(int micro_batch) const {
    return cycle.empty() ? 0
                         : static_cast<std::size_t>(
                               cycle[static_cast<std::size_t>(micro_batch) % cycle.size()]);
  }
  /// All programs by number, `own` first; they must outlive the list.
  std::vector<const StageProgram*> programs(const StageProgram& own) const {
    std::vector<const StageProgram*> all{&own};
    for (const StageProgram& other : others) all.push_back(&other);
    return all;
  }
  bool operator==(const Mix&) const = default;
};

/// The ordered actions of every rank of one pipeline (one replica) for one step.
struct Program {
  int layers = 0;
  int micro_batches = 0;
  /// rank_of_layer[i] for i of 1..layers; [0] is the rank that loads the input.
  std::vector<int> rank_of_layer;
  std::vector<std::vector<Action>> ranks;

  bool operator==(const Program&) const = default;
};

/// Whether the program trains: has a backward. Without one it only reads losses, and read_loss
/// leaves no gradient behind.
bool trains(const Program& program);

/// A head of four lines (layers, micro_batches, ranks, rank_of_layer), then one line per action
/// with the rank's number before it: "0 | 2:backward 3". parse_program(to_text(p)) == p.
std::string to_text(const Program& program);
/// Also takes blank lines and comments from '#' on. Throws InputError with the line.
Program parse_program(std::string_view text);

/// One row per rank, one column per time slot of equal passes: a program to look at.
///
///     0 | F0 F1 .. B0 .. B1
///     1 | .. F0 B0 F1 B1 ..
///
/// A forward pass is there when its stage's last layer is first run, a backward pass when the
/// backward of the stage's first layer is. On ranks with several stages the stage's number stands
/// in front: "2F0". Throws InputError when passes wait for one another in a circle.
std::string grid(const Program& program);

}  // namespace trireme::program
