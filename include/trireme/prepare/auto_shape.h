// Choice of stages x replicas and of the micro-batch size, where a job leaves them open.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"
#include "trireme/model/chain.h"
#include "trireme/prepare/prepared.h"
#include "trireme/ranks/rank_context.h"

#include <ostream>
#include <variant>

namespace trireme::prepare {

/// A job with numbers for stages, replicas and micro-batch size, and what the choice of these has
/// shown of its plan.
struct SettledJob {
  config::JobSpec job;
  Preparation known = {};
};

/// Collective: the job with numbers for stages, replicas and the micro-batch size where these are
/// open, the same on all ranks. Of several shapes rank 0 takes the one with the fastest step
/// (partition::choose_shape). For that the chain is measured with the smallest and, where memory
/// and time allow, the largest micro-batch; other sizes are estimated on the line between them. A
/// shape is taken only once its own size was measured: until then that is measured and the choice
/// repeated.
///
/// `ranks` is the number of ranks of the run to come; `context` may have fewer. Ranks without a
/// budget count with what their host or GPU has, and keep all activations. What was tried and
/// chosen is printed to `out`.
///
/// A Misfit where no shape keeps the budgets. Throws InputError when the fixed values allow none.
std::variant<SettledJob, Misfit> with_shape(const config::JobSpec& job,
                                            const model::ChainModel& model,
                                            const ranks::RankContext& context, int ranks,
                                            std::ostream& out);

}  // namespace trireme::prepare
