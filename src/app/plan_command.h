// `trireme plan`: from a chain and a budget to a plan, or to why there is none.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/goal.h"

#include <optional>
#include <string>
#include <vector>

namespace trireme::app {

struct PlanArguments {
  std::string chain, graph, platform;  ///< one of chain and graph
  std::string memory;                  ///< empty: the platform's; overrides it
  int stages = 1;
  int micro_batches = 1;
  std::string schedule = "auto";
  std::vector<int> cut;  ///< empty: the planner's choice
  std::string solver = "auto";
  int slots = 500;
  std::string optimizer = "auto";       ///< auto, device or offload
  std::string weights = "auto";         ///< likewise
  std::string split_backward = "auto";  ///< auto | never
  std::string updates = "auto";         ///< auto, or a name of program::UpdatePlace
  std::optional<int> group;             ///< empty: the fastest
  std::string objective = "time";       ///< a name of partition::Objective
  std::string deadline = "none";        ///< as partition::deadline_of() reads it
  bool pareto = false;
  double time_limit = 60;  ///< seconds, of all searches for a graph
  bool compact = false;    ///< the schedule of a graph alone
  std::string output, report;
  bool json = false;
  bool why = false, verbose = false;  ///< --why; with all decisions
  int sweep = 0;                      ///< budgets to try; 0: one plan
  std::string csv, plot;
  /// With --ranks: values that the user fixed, 0 where none.
  int ranks = 0, batch = 0, measured_at = 0, replicas = 0;
  bool shard_optimizer = true;
  bool stages_given = false, micro_batches_given = false;
};

/// Copies the options that do not depend on chain, ranks and shape.
void take_options(const PlanArguments& arguments, partition::Question& question);

/// --memory, if it is given. Throws InputError where it is no size.
std::optional<Bytes> memory_of(const PlanArguments& arguments);

/// Throws InputError for a deadline that cannot be read.
partition::Goal goal_of(const PlanArguments& arguments);

/// Says why there is no plan, and what would help; returns the exit code.
int give_up(const PlanArguments& arguments, const partition::Question& question,
            const plan::Infeasible& why);

/// Returns the exit code; throws InputError.
int plan(const PlanArguments& arguments);

}  // namespace trireme::app
