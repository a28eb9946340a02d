// Stages x replicas and the size of micro-batches, where a job leaves them to Trireme.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launch.h"
#include "train_plan.h"

#include "trireme/config/job.h"
#include "trireme/model/chain.h"

#include <ostream>

namespace trireme::app {

/// A job without an open shape, and whether its plan has to be made from costs, because the shape
/// was chosen by them.
struct SettledJob {
  config::JobSpec job;
  Costs costs = Costs::kWhereNeeded;
};

/// Every rank: the job, where its shape is open with numbers for stages, replicas and the size of
/// micro-batches, the same on all. Of several shapes rank 0 takes the one with the fastest step
/// (partition::choose_shape). For that the chain is measured with the smallest and, where memory
/// and time allow, the largest micro-batch; other sizes are estimated on the line between them. A
/// shape is taken only once its own size was measured: until then that is done, and chosen again.
///
/// `ranks` are those of the run to come; `context` may have fewer. Ranks without a budget count
/// with what their host or GPU has, and keep everything. What was tried and taken is told on `out`.
///
/// Throws DoesNotFit when no shape keeps the budgets, InputError when what is fixed leaves none.
SettledJob with_shape(const config::JobSpec& job, const model::ChainModel& model,
                      const RankContext& context, int ranks, std::ostream& out);

}  // namespace trireme::app
