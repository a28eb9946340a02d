// Peak memory of a stage's program, predicted from a profile and measured while the executor runs
// it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "small_runs.h"

#include <string>
#include <vector>

namespace trireme::runtime {

enum class Policy {
  kKeepAll,
  kRecomputeAll,
  /// Activation checkpointing by pairs of layers, of which only the input is kept; both are taped
  /// again before their backwards (Chen et al. 2016). The last layer, or the last two, are taped at
  /// once.
  kSegments,
};
std::string name(Policy policy);

plan::Plan plan_for(const model::ChainModel& model, const config::JobSpec& job,
                    const std::vector<int>& cut, Policy policy);

/// One rank's measured bytes.
struct RankBytes {
  Bytes fixed;  ///< before the first micro-batch
  Bytes peak;
};

/// One step of the job, run by the executors alone with `job.threads` threads each.
std::vector<RankBytes> run_once(const config::JobSpec& job, const model::ChainModel& model,
                                const plan::Plan& plan);

/// One rank's predicted bytes.
struct PredictedBytes {
  Bytes fixed;
  Bytes by_formula;  ///< static + channel + (in flight - 1) x kept + the peak of one micro-batch
  Bytes simulated;   ///< with one buffer for every stream of a boundary
  Bytes cuts;        ///< outputs that cross its boundaries
};

/// Measures the job's layers and predicts its peaks.
std::vector<PredictedBytes> predict(const config::JobSpec& job, const model::ChainModel& model,
                                    const plan::Plan& plan);

}  // namespace trireme::runtime
