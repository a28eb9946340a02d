// MPI's own start and end wait for all ranks and have no limit of time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace trireme::comm {

/// How long the others may take to start where a wait for them may take `timeout`: each loads its
/// libraries and reads its job and data first.
Seconds start_patience(Seconds timeout);

/// While it lives, MPI may wait for all ranks. Past the timeout, or when a stop is requested, it
/// ends this process (exit codes 1 and 130), for nothing else ends such a wait, and the launcher
/// ends the others: "rank 1: waited 240 s for the other ranks WHAT".
class AllRanksWatch {
 public:
  AllRanksWatch(ChannelOptions options, std::string what);
  AllRanksWatch(const AllRanksWatch&) = delete;
  AllRanksWatch& operator=(const AllRanksWatch&) = delete;
  ~AllRanksWatch();

 private:
  void watch();

  ChannelOptions options_;
  std::string what_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace trireme::comm
