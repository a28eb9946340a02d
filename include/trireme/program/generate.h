// From stages to programs: orders of passes (GPipe, 1F1B, forward only), and the lowering that
// turns passes into actions with transfers, reductions and the optimizer step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/program/action.h"

#include <string_view>
#include <vector>

namespace trireme::program {

/// A whole forward or backward of one micro-batch on one stage.
struct Pass {
  enum class Kind { kForward, kBackward };
  Kind kind{};
  int micro_batch = 0;

  bool operator==(const Pass&) const = default;
};

/// For each stage, its passes in order.
using PassOrder = std::vector<std::vector<Pass>>;

/// Stages and micro-batches of a schedule, both >= 1.
struct PipelineShape {
  int stages = 1;
  int micro_batches = 1;
};

/// 1F1B with a flush (Narayanan et al. 2021): stage k (0-based) has min(p - k, m) micro-batches in
/// flight.
PassOrder one_f_one_b(PipelineShape shape);
/// The same order with other numbers in flight, one per stage: stage k begins with in_flight[k] - 1
/// forwards, then alternates. Fewer hold less memory and may wait more (1F1B*: Beaumont,
/// Eyraud-Dubois and Shilova 2021). Throws InputError where a stage has more than the one before
/// it, for it would wait for inputs that wait for its own gradients, or the last has none.
PassOrder one_f_one_b_with(const std::vector<int>& in_flight, int micro_batches);
/// All forwards, then all backwards, both in micro-batch order (so that gradients accumulate in the
/// same order as in 1F1B).
PassOrder gpipe(PipelineShape shape);
/// The order of a schedule by its name in jobs and plans: "1f1b" with `in_flight` on each stage, or
/// "gpipe", which has all micro-batches in flight in any case.
PassOrder pass_order(std::string_view schedule, const std::vector<int>& in_flight,
                     int micro_batches);
/// Default number in flight of stage k (0-based) of `stages`.
int usual_in_flight(std::string_view schedule, int stages, int k, int micro_batches);
/// Forwards alone, for validation.
PassOrder forwards_only(PipelineShape shape);

/// Every layer taped: nothing is recomputed.
StageProgram keep_all(int first_layer, int last_layer);
/// Every layer checkpointed: its input is kept, its tape recomputed right before its backward.
StageProgram recompute_all(int first_layer, int last_layer);
/// Untaped forwards, inputs dropped at once; no backward.
StageProgram evaluate(int first_layer, int last_layer);

/// Whether the step's end belongs to the program.
enum class StepEnd { kNone, kReduceClipStep };

/// On a rank with several stages: the stage of every pass, in the order in which the rank runs them
/// (the stage's own order says which pass it is). By rank; empty for a rank with one stage.
using Turns = std::vector<std::vector<int>>;

/// Seconds of one micro-batch, by stage; `message`: for sending an output, or its gradient, between
/// a stage and the next (one fewer; 0 within a rank).
struct StageTimes {
  std::vector<double> forward, backward, message;
};

/// Turns for ranks with several stages, none if there is no such rank, and when the last pass ends
/// with these times: a rank that is free begins a backward that may run, or else a forward, of the
/// earliest micro-batch. Throws InputError when the order deadlocks.
struct TimedTurns {
  Turns turns;
  double end = 0;
};
TimedTurns take_turns(const PassOrder& order, const std::vector<int>& rank_of_stage,
                      const StageTimes& times);

/// What lower() turns into a program: stage k runs on rank k unless `rank_of_stage` says otherwise
/// (a rank may have several stages). Stages must cover 1..L without gaps.
struct Lowering {
  std::vector<StageProgram> stages;
  PassOrder order;
  std::vector<int> rank_of_stage;  ///< empty: stage k on rank k
  StepEnd end = StepEnd::kReduceClipStep;
  Turns turns = {};             ///< empty: as passes of equal length would take them
  std::vector<Mix> mixes = {};  ///< by stage; empty: there are none
};

/// The program of all ranks. Adds load_input, load_target, read_loss, sends, receives and the end
/// of the step. A forward pass begins with its loads or its receive_input; sends and read_loss
/// follow right after their value was made; receive_gradient stands right before the first backward
/// that needs it, so that recomputation and copies back overlap with the transfer of the gradient.
/// Between two stages on one rank the values simply stay. The passes of several stages on one rank
/// are run in `turns`, or else in the order in which passes of equal length could run, backward
/// passes first. Throws InputError when stages, orders or turns do not fit together.
Program lower(const Lowering& lowering);

}  // namespace trireme::program
