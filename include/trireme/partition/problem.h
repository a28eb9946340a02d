// What is planned: a problem, what of it is settled beforehand, how much effort an answer is worth.
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

/// First and last layer of each stage of a rank, in the order of the layers.
using LayerRuns = std::vector<std::pair<int, int>>;

/// No limit to copies.
inline constexpr Seconds kAnyTime{std::numeric_limits<double>::infinity()};

/// What a plan is for. Rank k of the platform runs stage k, but for plans of madpipe, where one
/// rank may have several stages; a rank's `memory` is its budget (0: none), static bytes and
/// channel buffers inside.
struct Problem {
  chain::Chain chain;
  chain::Platform platform;  ///< at least `stages` ranks
  int stages = 1;            ///< ranks that are used; with madpipe more stages than that
  int micro_batches = 1;
  int replicas = 1;  ///< of the pipeline
  /// See shard_optimizer().
  int optimizer_shards = 1;
  std::string schedule = "1f1b";
  /// Whether gradients are clipped by their norm, for which all of them have to be there.
  bool clips = true;
  /// Of the static bytes of a rank with these runs of layers. Empty: nothing is shared.
  std::function<chain::SharedBytes(const LayerRuns&)> shared_bytes;
};

/// What is settled beforehand, by a user or by a search over something else, and what is open. What
/// is not said here is as plain as can be: nothing is away, micro-batches pass one by one.
struct Freedom {
  /// "auto": the best that fits; one of joint_solver_names(); or the name of a single-stage solver,
  /// which then makes every stage's program.
  std::string solver = "auto";
  std::optional<std::vector<int>> cut;  ///< nothing: open
  /// With 1f1b, micro-batches in flight by stage, none more than the one before it; empty: as the
  /// schedule has, where `auto` and `joint` also try others.
  std::vector<int> in_flight;
  /// Of the optimizer's state, a rank has in its offload tier between updates what it can copy one
  /// way in this time, as far as there is room: nothing with 0, all of it with kAnyTime. Nothing
  /// given: open.
  std::optional<Seconds> optimizer_copies = Seconds(0);
  /// Layers, ascending, whose weights (chain::LayerCost::may_leave) are in the offload tier of
  /// their rank, as far as there is room, and come for every use. Nothing given: open.
  std::optional<std::vector<int>> streamed = std::vector<int>{};
  /// Of these layers, the weights of so many are on a rank's device at a time; nothing given: two
  /// or three, what makes a step faster.
  std::optional<int> weights_at_once = program::kLeastAtOnce;
  /// So many micro-batches pass the layers together (plan::Plan::group). Nothing given: open.
  std::optional<int> group = 1;
  /// Of several stages, whether backwards may have two parts where that makes a step faster and the
  /// chain says what they cost (chain::LayerCost::split).
  bool splits_backward = true;
  /// When streamed layers are updated. Nothing given: of what clipping and replicas allow, what
  /// makes a step of one stage fastest.
  std::optional<program::UpdatePlace> updates = program::UpdatePlace::kAtEnd;
  /// As in plan::Plan, where they are updated among passes. Nothing given: a few parts of the usual
  /// size, or of small layers a part of what the largest one has; a part of that where nothing
  /// fits.
  std::optional<Bytes> update_window = {};
  /// By rank, bytes beyond its budget that programs are made for (negative: that are left free):
  /// what solvers count for a stage may be more or less than it needs. Empty: none. A plan is
  /// within the budgets themselves.
  std::vector<Bytes> more = {};
};

/// What an answer may cost: a plan of less effort takes a fraction of the time, its step a few
/// percent longer.
struct Effort {
  int slots = 500;      ///< of memory in tables
  double breadth = 1;   ///< as in solve::Problem
  int decisions = 400;  ///< that are judged at most, a few more where several are judged at once
  bool quick = false;   ///< by quick solvers alone
};

struct Question : Problem, Freedom, Effort {
  /// What copies of a question share while it is answered: plan() and its like see to it.
  std::shared_ptr<SolverStore> solvers = {};
};

/// A plan with its predictions and the alternatives that it beat, or why there is none.
using Answer = std::variant<plan::Plan, plan::Infeasible>;
/// Who answers questions, with some of what they leave open settled.
using Planner = std::function<Answer(const Question&)>;

/// The same question whose budgets are what programs are made for: for solvers that know one number
/// for both.
Question with_more_as_budget(Question question);

/// Replicas divide the optimizer's state among themselves: the problem's chain, and what ranks
/// share, become what each has of it.
void shard_optimizer(Problem& problem);

/// Whether the rank has an offload tier, and copies from there: frozen weights can come and go;
/// trained ones where there are copies to there, too.
bool can_stream(const chain::RankSpec& rank);
/// The same with copies both ways: the optimizer's state can.
bool can_move_state(const chain::RankSpec& rank);

/// All layers that have weights that may leave.
std::vector<int> all_to_stream(const chain::Chain& chain);
/// Freedom::streamed for "device" (none), "offload" (all) and "auto".
std::optional<std::vector<int>> streamed_layers_of(const std::string& place,
                                                   const chain::Chain& chain);

/// Freedom::optimizer_copies for "device" (none), "offload" (all) and "auto".
std::optional<Seconds> optimizer_copies_of(const std::string& place);

/// Freedom::updates for a name of program::UpdatePlace, nothing for "auto".
std::optional<program::UpdatePlace> updates_of(const std::string& place);

/// Solvers for several stages beside the single-stage ones, in the order in which tables show them:
/// "joint" (the least time of every stage by tables, with copies where a rank can), "adapipe" (per
/// layer keep or recompute), "uniform N" (N layers at a time are run again, 2 if not given), "block
/// N" (the first N layers of every stage are run again, one by one).
const std::vector<std::string>& joint_solver_names();
/// Whether a solver is one of them, with its argument or without.
bool is_joint(const std::string& solver);

/// Every name that a question's solver may have, without arguments: single-stage solvers, these,
/// and "auto".
const std::vector<std::string>& known_solvers();

/// Parameters, gradients and optimizer of a rank that has these layers, wherever they are.
Bytes static_bytes(const Problem& problem, const LayerRuns& runs);
/// The same where nothing is shared.
Bytes static_bytes(const chain::Chain& chain, int first, int last);

/// How much less of these layers' weights, and gradients, a rank holds that streams them.
Bytes saved_bytes(const chain::Chain& chain, const std::vector<int>& layers, int at_once);

/// What a plan runs on, for validator and simulator. The problem must outlive it.
simulate::Setting setting_of(const Problem& problem, const plan::Plan& plan);

/// The plan as it runs. Throws LogicError if it is not legal.
simulate::Simulation simulated(const Problem& problem, const plan::Plan& plan,
                               simulate::Detail detail);

/// The budget of one rank with the whole chain from which on nothing has to be run twice or moved.
Bytes keep_all_budget(const Problem& problem);

/// A step without recomputation, waits or transfers, all ranks in proportion to their speeds.
Seconds ideal_step(const Problem& problem);

}  // namespace trireme::partition
