// SPDX-License-Identifier: Apache-2.0
#include "all_ranks_watch.h"

#include "trireme/comm/cause.h"
#include "trireme/comm/launch.h"
#include "trireme/comm/waits.h"
#include "trireme/core/text.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

namespace trireme::comm {
namespace {

constexpr Seconds kLeastStartPatience{10};
constexpr double kStartTimeouts = 4;
/// The others' extra wait, so that rank 0 prints the error if it can.
constexpr Seconds kAfterRankZero{1};

[[noreturn]] void end_process(Ending ending, const std::string& text);

}  // namespace

Seconds start_patience(Seconds timeout) {
  return std::max(kLeastStartPatience, Seconds(timeout.count() * kStartTimeouts));
}

AllRanksWatch::AllRanksWatch(ChannelOptions options, std::string what)
    : options_(std::move(options)), what_(std::move(what)) {
  // Signals go to the rank's own threads: the new thread inherits a mask that blocks all.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { watch(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

AllRanksWatch::~AllRanksWatch() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void AllRanksWatch::watch() {
  const int rank = own_launch().rank;  // MPI may not be up yet
  ChannelOptions options = options_;
  if (rank > 0) options.timeout = options.timeout + kAfterRankZero;
  std::unique_lock lock(mutex_);
  const WaitEnd end = wait_until(lock, changed_, options, [this] { return ended_; });
  if (end == WaitEnd::kStopped)
    end_process(
        Ending::kStopped,
        concat("rank ", rank, ": stopped on request while waiting for the other ranks ", what_));
  if (end == WaitEnd::kTimedOut)
    end_process(Ending::kFailed,
                concat("rank ", rank, ": waited ", options_.timeout.count(),
                       " s for the other ranks ", what_,
                       ": one of them is stuck, stopped (state T of ps), or slower; where machines "
                       "take longer, set a longer pipeline.timeout"));
}

namespace {

void end_process(Ending ending, const std::string& text) {
  const std::string line = concat("trireme: ", text, "\n");
  [[maybe_unused]] const auto written = write(STDERR_FILENO, line.data(), line.size());
  _exit(static_cast<int>(ending));
}

}  // namespace
}  // namespace trireme::comm
