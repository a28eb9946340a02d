// Planning of activation offload in the fluid relaxation: a tensor being offloaded or prefetched
// frees or takes its bytes continuously (Beaumont et al. 2021, POFO, section 4). It shows what
// copies could achieve if tensors were divisible; the solvers `offload` and `pofo` start from it.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/program/action.h"
#include "trireme/solve/solve.h"

#include <optional>

namespace trireme::solve {

struct FluidPlan {
  Seconds time;                   ///< in the relaxation; replay of the program gives another
  program::StageProgram program;  ///< the same decisions with whole tensors
};

enum class FluidChoices {
  kOffload,              ///< every layer is taped once
  kOffloadAndRecompute,  ///< memory-persistent: a layer may also be recomputed
};

/// The fastest plan within the restrictions of POFO: each tensor moves once, out before the
/// backward begins and in after the forward has ended; only what the first forward keeps may move.
/// Nothing if none fits. The problem must have a link with rates and a capacity. Exact in bytes
/// where the cost tables are (see Problem::slots), exponential in layers in the worst case; meant
/// for up to about ten layers.
std::optional<FluidPlan> plan_fluid(const Problem& problem, FluidChoices choices);

}  // namespace trireme::solve
