// From a schedule to the program of a rank: where its memory is freed and its copies are awaited.
//
// In a program of a graph x[i] is the output of node i, whether that is the output of an operator
// or a gradient; "layer" means node.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/graph/graph.h"
#include "trireme/graph/schedule.h"
#include "trireme/program/action.h"

#include <vector>

namespace trireme::graph {

/// A training step of one rank that runs the schedule for each micro-batch, then reduces, clips and
/// steps. Node 0 must be the input, which is loaded, and the last forward node the loss, which is
/// read once, right after its computation; no node may read it.
///
/// - A value is freed where the schedule drops it: with `release` if its copy out was not awaited
///   yet, with `free` if it was copied in and will be again, else with `drop`.
/// - A copy in is awaited right before the first action that needs the value; the last one of a
///   value with `await`, which frees its place in the offload tier.
/// - A copy out of what is never copied in is left out; values in memory at the end are dropped.
///
/// The schedule must be one that replay() runs.
program::Program lower(const Schedule& schedule, const Graph& graph, int micro_batches);

/// Runs the forward nodes once for each micro-batch and reads the losses; each output is dropped
/// after its last use. `inputs` has those of node 1, 2, ...; 0 is the input.
program::Program forwards(const std::vector<std::vector<int>>& inputs, int micro_batches);

}  // namespace trireme::graph
