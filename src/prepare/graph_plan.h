// Plans of models that are graphs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/prepare/prepared.h"

#include <ostream>
#include <variant>

namespace trireme::prepare {

/// Measures the graph, then plans it by `plan.solver` (auto: keep_all where it fits the budget,
/// else poet, or greedy in a build without HiGHS) or takes the schedule of `plan.file`. One rank.
/// Throws InputError for a solver of chains and for a schedule that cannot run.
std::variant<Prepared, Misfit> prepare_graph(const config::JobSpec& job,
                                             const model::ChainModel& model,
                                             const ranks::RankContext& context, std::ostream& out);

}  // namespace trireme::prepare
