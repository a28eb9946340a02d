// A timeout for MPI_Init and MPI_Finalize, which wait for all ranks without limit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace trireme::comm {

/// How long the other ranks may take to start, given the `timeout` of a wait: each first loads its
/// libraries and reads its job and data.
Seconds start_patience(Seconds timeout);

/// While an object lives, MPI may wait for all ranks. After the timeout, or when a stop is
/// requested, it ends this process (exit codes 1 and 130), since nothing else ends such a wait, and
/// the launcher ends the others: "rank 1: waited 240 s for the other ranks WHAT".
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
