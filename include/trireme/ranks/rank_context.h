// What a running rank of a job works with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"
#include "trireme/ranks/rank_device.h"

#include <string>

namespace trireme::ranks {

/// A running rank of a job.
struct RankContext {
  comm::Channel& channel;  ///< the device's
  RankDevice& device;
  int stages = 1;                ///< ranks per pipeline; not final while the shape is open
  int threads = 1;               ///< of every rank's operators
  std::string why_threads = {};  ///< as comm::RankThreads says it
  int ranks_on_host = 1;         ///< this one included
  bool owns_process = true;      ///< no other rank in this process
  bool shares_cores = false;     ///< this host has fewer cores than its ranks have threads
};

}  // namespace trireme::ranks
