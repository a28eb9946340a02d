// Steps as they come from real models: GPT-2 on one rank, GPT-3 XL on a pipeline of four.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/plan/plan.h"
#include "trireme/simulate/simulate.h"

namespace trireme::report {

struct SampleRun {
  chain::Chain chain;
  plan::Plan plan;
  simulate::Simulation predicted;
  /// The same program with layers that take up to a sixth more or less time, waits as events, and
  /// the end of the step: what a measurement looks like.
  simulate::Simulation measured;
};

/// 26 layers in four micro-batches on one rank, some layers recomputed, some tapes offloaded.
SampleRun one_rank_sample();

/// 50 layers in eight micro-batches on four ranks with links between them.
SampleRun pipeline_sample();

}  // namespace trireme::report
