// Actions and programs: a schedule as data, the ordered instructions of every rank. Nothing else
// decides order.
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
  kRetape,    ///< early-stop recomputation of the tape of i, without x[i], which nothing reads any
              ///< more; the input stays
  kBackward,  ///< backward of i: frees its tape, the gradient of x[i], an x[i-1] held by itself
  kBackwardInput,  ///< the same, except weight gradients that can be deferred: it leaves what these
                   ///< need
  kBackwardWeights,  ///< the weight gradients deferred since backward_input of i
  kDrop,             ///< frees the standalone x[i]
  kOffload,          ///< x[i] is copied to the offload tier on the out lane
  kPrefetch,         ///< x[i] is copied back on the in lane
  kOffloadTape,      ///< the tape of i is copied out
  kPrefetchTape,     ///< the tape of i is copied back
  kLoadInput,        ///< x[0] of the micro-batch is loaded (layer 0)
  kLoadTarget,       ///< the target of the last layer is loaded (layer L)
  kReadLoss,         ///< x[L] is added to the step's loss and replaced by its gradient (layer L)
  kSendOutput,       ///< x[i] is sent to the rank of layer i+1 and freed here
  kReceiveInput,     ///< x[i] comes from the rank of layer i
  kSendGradient,     ///< the gradient of x[i] is sent to the rank of layer i and freed here
  kReceiveGradient,  ///< the gradient of x[i] comes from the rank of layer i+1
  // Only in programs of graphs (graph/lower.h), where x[i] is the output of node i.
  kCompute,   ///< node i, a forward, is computed; its inputs stay
  kGradient,  ///< node i, the gradient of an output, is computed; its inputs stay
  kUpdate,    ///< a part of the optimizer step of layer i alone, which `step` then leaves out
  kReduceGradients,  ///< gradients of tied weights are added over their uses, then all gradients
                     ///< of weights that stay on the device over the replicas (layer 0); those of
                     ///< the streamed weights of i over the replicas
  kClip,             ///< global norm over all stages (layer 0)
  kStep,  ///< optimizer step; gradients are zero afterwards (layer 0: of weights that stay on the
          ///< device; layer i: of its streamed weights)

  // Everything else that moves. The last lowering passes write these (with_updates(),
  // with_weights(), simulate::place_copies()); plans do not have them.
  kRelease,         ///< device bytes of x[i] are freed once its copy out has ended
  kReleaseTape,     ///< those of the tape of i
  kCopyIn,          ///< device bytes for the prefetched x[i] are taken and its copy in begins
  kCopyInTape,      ///< those for the tape of i
  kAwait,           ///< compute waits for the copy in of x[i]
  kAwaitTape,       ///< for that of the tape of i
  kAwaitCopy,       ///< as await of x[i], which the offload tier has from now on, too
  kFree,            ///< device bytes of x[i] are freed: the offload tier has the same
  kWeightsIn,       ///< room for the streamed weights of i is taken and their copy in begins
  kWeightsOut,      ///< their copy out begins
  kWeightsRelease,  ///< their device bytes are freed once that copy has ended
  kWeightsFree,     ///< their device bytes are freed: the offload tier has the same
  kAwaitWeights,    ///< compute waits for their copy in
  kGradientsIn,     ///< the same five for the gradients of these weights
  kGradientsOut,
  kGradientsRelease,
  kGradientsFree,
  kAwaitGradients,
  kGradientsNew,  ///< room for these gradients is taken, with any content: the next backward begins
                  ///< the sums
  kNoteNorm,      ///< these gradients, complete now, are counted in the global norm
  kStateIn,  ///< offloaded optimizer state of overlapped updates begins to be copied in (layer 0)
  kAwaitState,  ///< compute waits until all of it was copied out again (layer 0)
};

/// One action: `layer` is the i of the op, `micro_batch` 0-based (0 where the op is of none; for
/// kUpdate the number of the part).
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

/// Whether it runs a layer forward: taped or not, whole or stopped early, or as a node.
bool is_forward(Op op);
/// Whether it gives the gradient of a layer's input: backward, backward_input.
bool is_backward(Op op);
/// Whether it adds to gradients of weights: these two, backward_weights and gradient.
bool adds_gradients(Op op);
/// send_output, send_gradient; receive_input, receive_gradient.
bool is_send(Op op);
bool is_receive(Op op);

/// Whether a stage's program may have it; everything else is added by lowering.
bool is_of_stage(Op op);
/// Whether it is of a micro-batch's pass, and may change which of its values are held: all those
/// before `update` in the enumeration.
bool is_of_pass(Op op);
/// reduce_gradients, clip, step.
bool ends_step(Op op);
/// release, copy_in, await, and the same of tapes.
bool is_placed_copy(Op op);
/// Whether it changes what the device has of streamed weights and gradients: in, new, out, release,
/// free.
bool moves_weights(Op op);

/// "2:backward 3".
std::string to_text(const Action& action);
/// The reverse; throws InputError that says what was expected.
Action parse_action(std::string_view text);

/// What a stage does for one micro-batch; actions carry micro-batch 0. At the end of `forward`
/// x[last] has been made, at the beginning of `backward` its gradient is there. A stage may keep
/// anything in between.
struct StageProgram {
  int first_layer = 1;
  int last_layer = 1;
  std::vector<Action> forward;
  std::vector<Action> backward;

  bool operator==(const StageProgram&) const = default;
};

/// Index in `forward` of the action that makes x[last] for the last time, after which it is sent to
/// the next stage or read as the loss. The list's length if there is none.
std::size_t output_made(const StageProgram& program);

/// The program shifted to the layers from `first_layer` on.
StageProgram moved_to(StageProgram program, int first_layer);

/// A stage whose micro-batches do not all run the same program: micro-batch m runs number cycle[m %
/// cycle.size()], where 0 is the stage's own and i is others[i - 1]. Without a cycle all run the
/// stage's own. If the cycle is as long as the number of micro-batches in flight, a stage always
/// holds what one round of it keeps.
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
/// leaves no gradient.
bool trains(const Program& program);

/// A head of four lines (layers, micro_batches, ranks, rank_of_layer), then one line per action
/// with the rank's number before it: "0 | 2:backward 3". parse_program(to_text(p)) == p.
std::string to_text(const Program& program);
/// Also takes blank lines and comments from '#' on. Throws InputError with the line.
Program parse_program(std::string_view text);

/// One row per rank, one column per time slot of passes of equal length: a program to look at.
///
///     0 | F0 F1 .. B0 .. B1
///     1 | .. F0 B0 F1 B1 ..
///
/// A forward pass is there when its chunk's last layer is first run, a backward pass when the
/// backward of the chunk's first layer is; of backwards in two parts, I when that is and W when the
/// last gradient of the chunk's weights is. On ranks with several chunks the chunk's number stands
/// in front: "2F0". `chunks`, by layer from 1: the number of its chunk; empty: a chunk ends where
/// the rank changes. Throws InputError when passes deadlock.
std::string grid(const Program& program, std::vector<int> chunks = {});

}  // namespace trireme::program
