// The planner's input: the problem, which decisions are fixed beforehand, and the search effort.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/chain/platform.h"
#include "trireme/core/units.h"
#include "trireme/plan/plan.h"
#include "trireme/simulate/simulate.h"
#include "trireme/simulate/validate.h"

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace trireme::partition {

class SolverStore;

/// First and last layer of each stage of a rank, in chain order.
using LayerRuns = std::vector<std::pair<int, int>>;

/// No limit on the time of copies.
inline constexpr Seconds kAnyTime{std::numeric_limits<double>::infinity()};

/// What is to be planned. Rank k of the platform runs stage k, except in plans of madpipe, where
/// one rank may have several stages. A rank's `memory` is its budget (0: none), which includes
/// static bytes and channel buffers.
struct Problem {
  chain::Chain chain;
  chain::Platform platform;  ///< at least `stages` ranks
  int stages = 1;            ///< ranks in use; madpipe may make more stages than that
  int micro_batches = 1;
  int replicas = 1;  ///< copies of the pipeline
  /// See shard_optimizer().
  int optimizer_shards = 1;
  std::string schedule = "1f1b";
  /// Whether gradients are clipped by their global norm, which needs all of them before any update.
  bool clips = true;
  /// Static bytes that a rank with these runs of layers counts twice, such as tied weights. Empty:
  /// nothing is shared.
  std::function<chain::SharedBytes(const LayerRuns&)> shared_bytes;
};

/// Decisions that the user, or an outer search, has fixed, and those left open. The defaults are
/// the plainest plan: nothing offloaded, micro-batches one by one.
struct Freedom {
  /// "auto": the best that fits; one of joint_solver_names(); or the name of a single-stage solver,
  /// which then makes the program of every stage.
  std::string solver = "auto";
  std::optional<std::vector<int>> cut;  ///< empty: the planner's choice
  /// Several chunks on every rank: "none"; "auto": also plans with two or four, V-shaped, whose
  /// order of passes is searched, taken where they are faster; or a name of
  /// schedule::named_schedules(), whose placement and order every plan then has.
  std::string chunks = "none";
  /// Whether `auto` may give one rank several chunks and the others one, as madpipe does.
  bool shares_ranks = true;
  /// Micro-batches in flight by stage with 1f1b, non-increasing from stage to stage. Empty: the
  /// schedule's numbers, besides which `auto` and `joint` also try others.
  std::vector<int> in_flight;
  /// Optimizer state offload, as a time budget: a rank offloads as much state as it can copy one
  /// way in this time and its offload tier has room for. 0: none; kAnyTime: all; empty: the
  /// planner's choice.
  std::optional<Seconds> optimizer_copies = Seconds(0);
  /// Layers, ascending, whose weights (chain::LayerCost::may_leave) are streamed: held in the
  /// offload tier of their rank, as far as it has room, and copied to the device for each use.
  /// Empty optional: the planner's choice.
  std::optional<std::vector<int>> streamed = std::vector<int>{};
  /// Number of streamed layers whose weights are on a rank's device at a time. Empty: two or three,
  /// whichever is faster.
  std::optional<int> weights_at_once = program::kLeastAtOnce;
  /// Size of breadth-first groups of micro-batches (plan::Plan::group). Empty: the planner's
  /// choice.
  std::optional<int> group = 1;
  /// Whether backwards of pipelines may be split where that makes a step faster and the chain has
  /// the costs of both parts (chain::LayerCost::split).
  bool splits_backward = true;
  /// When streamed layers are updated (overlapped optimizer step). Empty: the fastest that clipping
  /// and replicas allow, for one stage.
  std::optional<program::UpdatePlace> updates = program::UpdatePlace::kAtEnd;
  /// Window of an overlapped optimizer step, as in plan::Plan. Empty: a few parts of the usual
  /// size, or for small layers a part of the largest one's state; a fraction of that where nothing
  /// fits.
  std::optional<Bytes> update_window = {};
  /// By rank, bytes added to the budget that programs are made for (negative: left free), since
  /// solvers may count more or less for a stage than it needs. Empty: none. The plan itself must
  /// fit the budgets.
  std::vector<Bytes> more = {};
};

/// Search effort. Less effort takes a fraction of the time and gives steps a few percent longer.
struct Effort {
  int slots = 500;      ///< memory slots of the solvers' tables
  double breadth = 1;   ///< as in solve::Problem
  int decisions = 400;  ///< most decisions to simulate, slightly more in parallel
  bool quick = false;   ///< use quick solvers only
};

struct Question : Problem, Freedom, Effort {
  /// Tables shared by copies of a question while it is answered; plan() and its variants set it.
  std::shared_ptr<SolverStore> solvers = {};
};

/// A plan with its predictions and the alternatives it beat, or why there is none.
using Answer = std::variant<plan::Plan, plan::Infeasible>;
/// A function that answers questions in which some open decisions have been fixed.
using Planner = std::function<Answer(const Question&)>;

/// The question with `more` added to its budgets, for solvers that know a single memory limit.
Question with_more_as_budget(Question question);

/// Shards the optimizer state over the replicas (ZeRO-1): the problem's chain and shared bytes
/// become one replica's share.
void shard_optimizer(Problem& problem);

/// Whether the rank has an offload tier and can copy from it, so that frozen weights can be
/// streamed; trained ones also need copies to it.
bool can_stream(const chain::RankSpec& rank);
/// Whether the rank can offload optimizer state: an offload tier with copies both ways.
bool can_move_state(const chain::RankSpec& rank);

/// All layers whose weights may be streamed.
std::vector<int> all_to_stream(const chain::Chain& chain);
/// Freedom::streamed for "device" (none), "offload" (all) and "auto".
std::optional<std::vector<int>> streamed_layers_of(const std::string& place,
                                                   const chain::Chain& chain);

/// Freedom::optimizer_copies for "device" (none), "offload" (all) and "auto".
std::optional<Seconds> optimizer_copies_of(const std::string& place);

/// Freedom::updates for a name of program::UpdatePlace, nothing for "auto".
std::optional<program::UpdatePlace> updates_of(const std::string& place);

/// Sets Problem::schedule, Freedom::chunks and Freedom::shares_ranks for one of
/// schedule::schedule_choices(). "1f1b" has one chunk on every rank, with as many in flight and
/// passes deferred as is fastest.
void set_schedule(Question& question, const std::string& schedule);

/// Multi-stage solvers, in the order in which tables show them: "joint" (least time of every stage
/// by tables, with copies where a rank can), "adapipe" (keep or recompute per layer), "uniform N"
/// (recomputes N layers at a time, 2 if not given), "block N" (recomputes the first N layers of
/// every stage one by one). "madpipe" is joint's programs with several stages on one rank.
const std::vector<std::string>& joint_solver_names();
/// Whether a solver is one of these, with or without its argument.
bool is_joint(const std::string& solver);

/// Every name that a question's solver may have, without arguments: single-stage, multi-stage and
/// "auto".
const std::vector<std::string>& known_solvers();

/// Bytes of parameters, gradients and optimizer state of these layers, on the device or offloaded.
Bytes static_bytes(const Problem& problem, const LayerRuns& runs);
/// The same where nothing is shared.
Bytes static_bytes(const chain::Chain& chain, int first, int last);

/// Device bytes of weights and gradients that streaming these layers saves, `at_once` on the device
/// at a time.
Bytes saved_bytes(const chain::Chain& chain, const std::vector<int>& layers, int at_once);

/// Setting::clocks of a plan: the factors of the clocks that its stages name. Throws InputError for
/// a clock that the platform does not name.
std::vector<simulate::LayerClocks> clocks_of(const chain::Platform& platform,
                                             const plan::Plan& plan);

/// The setting in which the validator and the simulator run a plan. The problem must outlive it.
simulate::Setting setting_of(const Problem& problem, const plan::Plan& plan);

/// Simulates the plan. Throws LogicError if it is not legal.
simulate::Simulation simulated(const Problem& problem, const plan::Plan& plan,
                               simulate::Detail detail);

/// The least budget with which one rank can run the whole chain without recomputation or offload.
Bytes keep_all_budget(const Problem& problem);

/// Whether the least budget of an Infeasible for this question is the smallest that works, for all
/// ranks; elsewhere that may be less: copies and several stages on a rank are not counted.
bool has_exact_least_budget(const Question& question);

/// Step time without recomputation, waits or transfers, work shared in proportion to rank speeds.
Seconds ideal_step(const Problem& problem);

}  // namespace trireme::partition
