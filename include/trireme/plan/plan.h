// A plan: who runs which layers with which program, and what that was predicted to cost.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/core/units.h"
#include "trireme/io/node.h"
#include "trireme/program/action.h"
#include "trireme/program/generate.h"
#include "trireme/program/split_backward.h"
#include "trireme/program/updates.h"
#include "trireme/program/weight_uses.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trireme::plan {

/// A change by which what does not fit would.
struct Advice {
  enum class Kind { kMemoryOfOneRank, kStages, kHostMemory };
  Kind kind = Kind::kMemoryOfOneRank;
  std::string
      change;        ///< for people, after "it would fit with ": "3 stages on ranks like the last"
  Bytes bytes = {};  ///< kMemoryOfOneRank: more on that rank; kHostMemory: on every rank

  bool operator==(const Advice&) const = default;
};

/// Names of the kinds in files, in their order.
const std::vector<std::string>& advice_kinds();

/// Nothing fits: where, by how much, and what would.
struct Infeasible {
  /// kTurns: plans were made, but their micro-batches cannot pass in groups; no budget helps.
  enum class Reason { kMemory, kTurns };
  Reason reason = Reason::kMemory;
  int rank = 0;
  int first_layer = 1, last_layer = 1;
  Bytes needed;  ///< least peak that was found for what was asked
  Bytes available;
  Bytes least_budget;  ///< smallest budget that works; equals `needed` where it is exact
  std::string where;   ///< for people: "layer 7 (block3.mlp): its backward alone"
  std::vector<Advice> advice = {};  ///< each is enough by itself

  bool operator==(const Infeasible&) const = default;
};

struct StagePrediction {
  Seconds forward{0}, backward{0};  ///< per micro-batch, recomputation inside
  Bytes kept, peak, offloaded;  ///< kept: held at the pause, per micro-batch; peak: of the rank,
                                ///< static bytes inside

  bool operator==(const StagePrediction&) const = default;
};

struct StagePlan {
  int rank = 0;
  /// Micro-batches, or groups of them, whose forward has begun and whose backward has not ended; 0:
  /// as many as the schedule has. With 1f1b another number is a choice, with gpipe it is none.
  int in_flight = 0;
  Bytes budget, static_bytes;  ///< budget 0: none was given
  program::StageProgram program;
  StagePrediction predicted;
  program::Mix mix = {};  ///< predicted: means over its cycle
  /// Of the optimizer's state, what is in the offload tier but for the update; not in static_bytes.
  Bytes optimizer_away = {};
  /// Layers whose weights are in the offload tier and come for every use (chain::OffloadWeights),
  /// ascending; of these static_bytes has what is there at a time.
  std::vector<int> streamed = {};
  /// So many backward passes behind their own come the gradients of weights that may wait
  /// (program::with_split_backward). Nothing: backwards stay whole.
  std::optional<int> weights_behind = std::nullopt;

  bool operator==(const StagePlan&) const = default;
};

/// Something else that was tried: a policy with its predicted step time, or why it does not fit.
struct Alternative {
  std::string policy;
  std::optional<Seconds> step;
  std::optional<Infeasible> infeasible;

  bool operator==(const Alternative&) const = default;
};

struct Plan {
  std::string chain_name, chain_digest;
  std::string schedule = "1f1b";  ///< 1f1b | gpipe
  std::string solver;             ///< who made it
  int micro_batches = 1;
  bool lean_tapes = false;  ///< `memory.tapes` of the job, with whose costs it was made
  /// Of the layers that a rank streams, the weights of so many are on its device at a time.
  int weights_at_once = program::kLeastAtOnce;
  /// So many micro-batches pass the layers together (program::in_groups), and a stage's program is
  /// what each of a group does. The schedule, numbers in flight, turns and mixes are of groups.
  int group = 1;
  /// When layers are updated whose trained weights are streamed, of ranks with one stage; for plans
  /// whose streamed layers are all trained.
  program::UpdatePlace updates = program::UpdatePlace::kAtEnd;
  /// Of their state that is away, what a rank has on its device at a time if they are updated among
  /// passes: chain::state_parts(), among the static bytes.
  Bytes update_window = {};
  int replicas = 1;  ///< of the pipeline, with which it was predicted
  /// Of the optimizer's state and update each replica has one of so many shards; the plan's chain
  /// is chain::sharded(). 1: every replica has all.
  int optimizer_shards = 1;
  Seconds step{0};
  double bubble = 0;
  Seconds recompute{0};           ///< of one step, summed over ranks
  std::vector<StagePlan> stages;  ///< a rank may have several
  /// Empty: ranks with several stages run them as equal passes would (program::lower).
  program::Turns turns = {};
  std::vector<Alternative> alternatives;

  bool operator==(const Plan&) const = default;
};

/// Where something is lacking, and what would help: "of them 38.1 MiB of parameters; it would fit
/// with 3 stages on ranks like the last".
std::string where_and_advice(const Infeasible& infeasible);

/// One more than the highest rank of a stage.
int ranks_of(const Plan& plan);

/// Layers with an update of their own among the passes; by rank.
std::vector<std::vector<int>> updated_layers(const Plan& plan);
/// plan.update_window of the ranks that have such layers and state away, nothing of others; by
/// rank.
std::vector<Bytes> update_windows(const Plan& plan);

/// Of the optimizer's state, what is in the offload tier; by rank.
std::vector<Bytes> optimizer_away(const Plan& plan);

/// stage.weights_behind of each rank's stages; and whether there is any.
program::WeightsBehind weights_behind(const Plan& plan);
bool has_split_backward(const Plan& plan);

/// Layers whose weights come for every use; by rank.
std::vector<std::vector<int>> streamed_layers(const Plan& plan);
/// What comes and goes, by layer 0..length; empty where no stage streams any.
std::vector<chain::OffloadWeights> streamed_weights(const Plan& plan, const chain::Chain& chain);
/// What one rank has of it in the offload tier.
Bytes streamed_weights(const Plan& plan, const chain::Chain& chain, int rank);

/// Whether stage k is on rank k, for all of them.
bool has_rank_for_each_stage(const Plan& plan);

/// Whether some stage's micro-batches do not all run the same program.
bool has_mixes(const Plan& plan);

/// Of a stage (0-based): what the plan says, or as many as its schedule has.
int in_flight(const Plan& plan, std::size_t stage);

/// Most micro-batches of a plan file, and most actions of a program in one: with more of them it
/// has more values than a document may have.
inline constexpr int kMaxMicroBatches = 100'000;
inline constexpr int kMaxReplicas = 100'000;
inline constexpr std::int64_t kMaxActions = 1'000'000;

/// `trireme-plan/1`, one line per stage's action list. read_plan(to_json(p)) == p for stages in the
/// order of their layers with numbers in flight of their own and alternatives without advice.
std::string to_json(const Plan& plan);
/// The document that says why there is no plan: {"infeasible": {...}}.
std::string to_json(const Infeasible& infeasible);

/// The inside of that document: the value of its key `infeasible`. Its `where` has the advice.
Infeasible read_infeasible(const io::Node& node);

/// Reads `trireme-plan/1`. `chain`, `schedule`, `micro_batches` and of every stage `layers`,
/// `forward`, `backward` must be there; nothing of the optimizer is away and no weights are
/// streamed by default, and by default stage k is on rank k with as many micro-batches
/// in flight as its schedule has, and micro-batches pass the layers one by one (`group`). `turns`
/// is a list of {"rank": 0, "stages": [0, 2, 0, ...]}, stages counted from 0 in the order of their
/// layers. A stage whose micro-batches do not all run the same has `others`, a list of {"forward":
/// ..., "backward": ...}, and `cycle`. Stages may stand in any order and come back sorted by their
/// layers.
///
/// Throws InputError with file, line, stage and field: unknown key or op, a layer outside its
/// stage, gaps between stages. Whether the program is legal and fits is for the validator.
Plan load_plan(const std::filesystem::path& file);
Plan read_plan(const io::Node& document);

/// Throws InputError when the plan was made for another chain (other costs or length): both names
/// and digests are in the message.
void require_same_chain(const Plan& plan, const chain::Chain& chain);

/// Throws InputError where more of the optimizer's state is away than a stage's layers have, or
/// where a layer is streamed that has no weights of its own.
void require_state(const Plan& plan, const chain::Chain& chain);

/// The programs of all ranks (generate + lower, in groups). Throws InputError where stages, turns
/// or numbers in flight do not fit together, or where backwards in two parts meet what they cannot:
/// groups, ranks with several stages, updates among passes.
program::Program compile(const Plan& plan);
/// The same stages' forwards alone, for validation, in groups as large.
program::Program compile_forwards(const Plan& plan, int micro_batches);

}  // namespace trireme::plan
