// A rank on a GPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/ranks/rank_device.h"

#include <memory>

namespace trireme::ranks {

/// As open_rank_device(), for `device: cuda`. Ranks of one machine take its GPUs round-robin, so
/// that several may share one.
std::unique_ptr<RankDevice> open_rank_gpu(const config::JobSpec& job, comm::Channel& control,
                                          int stages);

}  // namespace trireme::ranks
