// A plan: which rank runs which layers with which program, and what that was predicted to cost.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/core/units.h"
#include "trireme/io/node.h"
#include "trireme/program/action.h"
#include "trireme/program/generate.h"
#include "trireme/program/updates.h"
#include "trireme/program/weight_uses.h"
#include "trireme/program/weights.h"
#include "trireme/schedule/order.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trireme::plan {

/// A change that would make a job fit.
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

/// Why no plan fits: where, by how much, and what would help.
struct Infeasible {
  /// kTurns: plans were made, but their groups of micro-batches would deadlock; no budget helps.
  /// kDeadline: plans fit, but the fastest, `least_step`, takes longer than the deadline; in
  /// `least_budget` one would be in time, if it is above 0.
  enum class Reason { kMemory, kTurns, kDeadline };
  Reason reason = Reason::kMemory;
  Seconds least_step{0};  ///< kDeadline
  int rank = 0;
  int first_layer = 1, last_layer = 1;
  Bytes needed;  ///< least peak that was found for what was asked
  Bytes available;
  Bytes least_budget;               ///< a budget that works; the smallest where it is exact
  std::string where;                ///< for people: "layer 7 (block3.mlp): its backward alone"
  std::vector<Advice> advice = {};  ///< each is enough by itself

  bool operator==(const Infeasible&) const = default;
};

struct StagePrediction {
  Seconds forward{0}, backward{0};  ///< per micro-batch, recomputation included
  Bytes kept, peak, offloaded;  ///< kept: held between forward and backward, per micro-batch; peak:
                                ///< of the rank, static bytes included

  bool operator==(const StagePrediction&) const = default;
};

struct StagePlan {
  int rank = 0;
  Bytes budget, static_bytes;  ///< budget 0: none was given
  program::StageProgram program;
  StagePrediction predicted;
  program::Mix mix = {};  ///< predicted: means over its cycle
  /// Bytes of optimizer state in the offload tier except during the update; not in static_bytes.
  Bytes offloaded_optimizer = {};
  /// Streamed layers, ascending: weights are in the offload tier and copied in for every use
  /// (chain::OffloadWeights); static_bytes has those that are on the device at a time.
  std::vector<int> streamed = {};
  /// Names of clocks of its rank (chain::RankSpec::clocks) for forward passes, and for backward
  /// passes with what they recompute. Empty: the usual clock.
  std::string forward_clock = {}, backward_clock = {};

  bool operator==(const StagePlan&) const = default;
};

/// Another policy that was tried, with its predicted step time, or why it does not fit.
struct Alternative {
  std::string policy;
  std::optional<Seconds> step;
  std::optional<Infeasible> infeasible;

  bool operator==(const Alternative&) const = default;
};

struct Plan {
  std::string chain_name, chain_digest;
  /// A name of schedule::named_schedules(), or "searched".
  std::string schedule = "1f1b";
  /// The order of passes, of which stage k is chunk k; of groups of micro-batches where there are
  /// any. Empty, for 1f1b and gpipe alone: with the schedule's usual numbers in flight.
  schedule::Order order = {};
  std::string solver;  ///< that made the plan
  int micro_batches = 1;
  bool lean_tapes = false;  ///< `memory.tapes` of the job, whose costs the plan was made with
  /// How many of its streamed layers a rank has on the device at a time.
  int weights_at_once = program::kLeastAtOnce;
  /// Micro-batches that run breadth-first together (program::in_groups); a stage's program is what
  /// each of a group does. The order and mixes are of groups.
  int group = 1;
  /// When streamed layers with trained weights are updated, on ranks with one stage; other than
  /// kAtEnd only for plans whose streamed layers are all trained.
  program::UpdatePlace updates = program::UpdatePlace::kAtEnd;
  /// Window for their offloaded state on a rank's device, if they are updated during the passes:
  /// chain::state_parts(); part of the static bytes.
  Bytes update_window = {};
  int replicas = 1;  ///< of the pipeline, with which it was predicted
  /// Shards of optimizer state and update, of which each replica has one; the plan's chain is
  /// chain::sharded(). 1: every replica has all.
  int optimizer_shards = 1;
  Seconds step{0};
  /// Lower bound on the step of any order of passes for this placement, cut and these programs
  /// (schedule::bound); 0 where the order was not searched.
  Seconds order_bound{0};
  double bubble = 0;
  Seconds recompute{0};           ///< of one step, summed over ranks
  Joules energy{0};               ///< of one step, summed over ranks; 0: not known
  std::vector<StagePlan> stages;  ///< a rank may have several
  std::vector<Alternative> alternatives;

  bool operator==(const Plan&) const = default;
};

/// Where the job does not fit, and what would help: "of them 38.1 MiB of parameters; it would fit
/// with 3 stages on ranks like the last".
std::string where_and_advice(const Infeasible& infeasible);

/// Whether its passes run at another clock than the usual one.
bool has_clocks(const StagePlan& stage);
/// Whether any of its stages does.
bool names_clocks(const Plan& plan);
/// The same plan with all passes at the usual clocks; predictions stay.
Plan at_usual_clocks(Plan plan);

/// One more than the highest rank of a stage.
int ranks_of(const Plan& plan);

/// Layers that are updated during the passes (overlapped optimizer step); by rank.
std::vector<std::vector<int>> updated_layers(const Plan& plan);
/// plan.update_window of ranks with such layers and offloaded state, 0 for others; by rank.
std::vector<Bytes> update_windows(const Plan& plan);

/// Bytes of optimizer state in the offload tier; by rank.
std::vector<Bytes> offloaded_optimizer(const Plan& plan);

/// By stage, its rank.
schedule::Placement placement(const Plan& plan);
/// By layer from 1 (entry 0 is unused), the number of its chunk; empty where every rank has one.
std::vector<int> chunks_of_layers(const Plan& plan);
/// The order of passes, also where the plan leaves it to its schedule.
schedule::Order order_of(const Plan& plan);
/// Gives the plan this order; empty where it is its schedule's own.
void set_order(Plan& plan, schedule::Order order);
/// By stage, the largest number of micro-batches, or groups of them, in flight.
std::vector<int> in_flight(const Plan& plan);
/// By stage, the largest number of backward passes by which weight gradients are deferred (split
/// backward, zero bubble). Nothing: its backwards are whole.
std::vector<std::optional<int>> deferred_passes(const Plan& plan);
bool has_split_backward(const Plan& plan);

/// Streamed layers; by rank.
std::vector<std::vector<int>> streamed_layers(const Plan& plan);
/// Streamed weights, by layer 0..length; empty where no stage streams any.
std::vector<chain::OffloadWeights> streamed_weights(const Plan& plan, const chain::Chain& chain);
/// Bytes of streamed weights and gradients of one rank in the offload tier.
Bytes streamed_weights(const Plan& plan, const chain::Chain& chain, int rank);

/// Whether stage k is on rank k, for all of them.
bool has_rank_for_each_stage(const Plan& plan);

/// Whether some stage's micro-batches do not all run the same program.
bool has_mixes(const Plan& plan);

/// Most micro-batches of a plan file, and most actions of a program in one: with more of them it
/// has more values than a document may have.
inline constexpr int kMaxMicroBatches = 100'000;
inline constexpr int kMaxReplicas = 100'000;
inline constexpr std::int64_t kMaxActions = 1'000'000;

/// `trireme-plan/1`, one line per stage's action list. read_plan(to_json(p)) == p for stages in the
/// order of their layers and alternatives without advice.
std::string to_json(const Plan& plan);
/// The document that says why there is no plan: {"infeasible": {...}}.
std::string to_json(const Infeasible& infeasible);

/// The value of the key `infeasible` in that document.
Infeasible read_infeasible(const io::Node& node);

/// Reads `trireme-plan/1`. `chain`, `schedule`, `micro_batches` and of every stage `layers`,
/// `forward`, `backward` must be there. By default no optimizer state is offloaded, no weights are
/// streamed, stage k is on rank k, and there are no groups (`group` is 1). `order` has the passes
/// of every rank (schedule::parse_passes); without it the schedule has its usual numbers in flight,
/// or those of older plan files: stages with `in_flight` and `weights_behind`, and `turns`, a list
/// of
/// {"rank": 0, "stages": [0, 2, 0, ...]}, stages counted from 0 in the order of their layers. A
/// stage whose micro-batches do not all run the same has `others`, a list of {"forward": ...,
/// "backward": ...}, and `cycle`. Stages may stand in any order and come back sorted by their
/// layers.
///
/// Throws InputError with file, line, stage and field: unknown key or op, a layer outside its
/// stage, gaps between stages. Whether the program is legal and fits is for the validator.
Plan load_plan(const std::filesystem::path& file);
Plan read_plan(const io::Node& document);

/// Throws InputError when the plan was made for another chain (other costs or length): both names
/// and digests are in the message.
void require_same_chain(const Plan& plan, const chain::Chain& chain);

/// Throws InputError where more optimizer state is offloaded than a stage's layers have, or where a
/// streamed layer has no weights of its own.
void require_state(const Plan& plan, const chain::Chain& chain);

/// How the plan streams weights; `chain` says which of them are trained.
program::Streaming streaming(const Plan& plan, const chain::Chain& chain);

/// The programs of all ranks (generate + lower, in groups), with the moves of streamed weights.
/// Throws InputError where stages and order do not fit together, or where split
/// backwards meet what they do not support: groups, ranks with several stages, updates during the
/// passes.
program::Program compile(const Plan& plan, const chain::Chain& chain);
/// The same of a plan that streams no weights, which needs no bytes of a chain.
program::Program compile(const Plan& plan);
/// The same of any plan, without the moves of streamed weights: what can be checked of a plan file
/// before the chain's bytes are known.
program::Program compile_passes(const Plan& plan);
/// Only the forwards of the same stages, for validation, in groups of the same size; `streaming`
/// as above.
program::Program compile_forwards(const Plan& plan, int micro_batches,
                                  const program::Streaming& streaming = {});

}  // namespace trireme::plan
