// Small jobs trained on the GPU, ranks as threads of this process.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/small_runs.h"

#include "trireme/device/cuda_part.h"
#include "trireme/simulate/place_copies.h"

#include <ATen/ATen.h>

#include <vector>

namespace trireme::device {

/// How a job is run in a test.
struct GpuRun {
  plan::Plan plan;
  Bytes budget;                        ///< 0: none
  simulate::PlacedCopies copies = {};  ///< of plans that move values
  bool to_file = false;                ///< where they go, instead of to pinned memory
  runtime::Checkpointing checkpoints = {};
  Bytes part = Bytes(1 << 16);  ///< size of offloaded optimizer state's parts
};

/// Results of the run.
struct GpuOutcome {
  record::RunSummary summary;
  /// Parameters of all ranks, on the host, before the first step; without offloaded masters.
  std::vector<at::Tensor> parameters;
  Bytes budget_left_by_allocator;  ///< budget minus most that was reserved
};

/// Runs every rank of the job on `gpu`, all as threads, with messages staged through pinned memory.
GpuOutcome train_on(CudaPart& gpu, const config::JobSpec& job, const model::ChainModel& model,
                    const GpuRun& run);

}  // namespace trireme::device
