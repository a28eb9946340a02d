// Plans for a given cut: a program for every stage, simulated to fit all budgets.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cut_search.h"
#include "stage/stage_policy.h"
#include "stage/stage_room.h"

#include "trireme/partition/problem.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trireme::partition {

/// The best plan so far and its cut.
struct Found {
  std::optional<plan::Plan> plan;
  Cut cut;

  /// Keeps the faster plan. Returns whether that is `other`.
  bool take(std::optional<plan::Plan> other, const Cut& from) {
    if (!other || (plan && plan->step <= other->step * (1 + kGain))) return false;
    plan = std::move(other);
    cut = from;
    return true;
  }
};

class PlanBuilder {
 public:
  /// The room must outlive it.
  explicit PlanBuilder(const StageRoom& room) : room_(room) {}
  /// For the same chain and memories with other numbers in flight; shares the policies and their
  /// tables.
  PlanBuilder(const StageRoom& room, const PlanBuilder& other)
      : room_(room), policies_(other.policies_) {}

  /// Created on first use; throws InputError if there is none of that name.
  StagePolicy& policy(const std::string& name);

  /// How a stage's program is made: the policy's own, with copies, or chosen among several. The
  /// fastest is not always the best: recomputation while a gradient is awaited costs nothing.
  enum class How { kPlain, kCopies, kChosen };
  /// A plan that the simulator finds within every budget; empty if there is none.
  std::optional<plan::Plan> built(const std::string& name, const Cut& cut, How how);
  /// Picks, stage by stage, the program of either plan (both on one cut) that makes the step
  /// shorter.
  plan::Plan mixed(plan::Plan plan, const plan::Plan& other);

 private:
  const StageRoom& room_;
  std::map<std::string, std::shared_ptr<StagePolicy>> policies_;
};

/// The fastest plan found for "joint" with activation offload; empty where copies cannot beat
/// `plain`, the best plan without them. `cuts`: candidates, best first.
Found joint_with_copies(const StageRoom& room, PlanBuilder& builder, const Found& plain,
                        const std::vector<Cut>& cuts);

/// Whether a stage of the plan may mix programs: something is recomputed, nothing is offloaded, and
/// every rank has one stage of one program.
bool can_be_mixed(const plan::Plan& plan);

/// A faster plan on the cut of `plan`, with the same numbers in flight: where a stage's memory
/// exceeds what one program for all its micro-batches can use, some of them run one that keeps
/// more. Empty if there is none. can_be_mixed(plan) must hold.
std::optional<plan::Plan> with_mixed_programs(const StageRoom& room, StagePolicy& policy,
                                              const plan::Plan& plan);

}  // namespace trireme::partition
