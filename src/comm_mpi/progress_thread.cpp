// SPDX-License-Identifier: Apache-2.0
#include "progress_thread.h"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <csignal>
#include <utility>

namespace trireme::comm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::milliseconds;

/// While a thread waits, spin for this long after the last event. Must be several pauses long, or
/// two ranks that answer each other fall into a rhythm in which each always sleeps when the other's
/// message arrives.
constexpr microseconds kSpin{200};
/// While bytes move: spin or pause briefly, unless nothing has happened for this long. If MPI moves
/// them in small fragments, each poll is worth about a hundred KiB.
constexpr microseconds kMovingPause{20};
constexpr milliseconds kMovingPatience{20};
/// While transfers are in progress: the longer nothing happens, the rarer the polls. A waiting
/// thread loses at most 1/100 of its wait, a transfer that overlaps computation 1/4: each poll
/// takes some 20 us from a thread that computes on the same core.
constexpr microseconds kShortestWatchedPause{50}, kLongestWatchedPause{250};
constexpr microseconds kShortestPause{200}, kLongestPause{1000};
constexpr int kQuietPerWatchedPause = 100;
constexpr int kQuietPerPause = 4;
/// Nothing in progress: others may still ask, or fail.
constexpr milliseconds kIdlePause{20};

/// Zero means not to sleep.
Clock::duration pause_length(Pace pace, bool watched, Clock::duration quiet);

}  // namespace

ProgressThread::ProgressThread(Work work) : work_(std::move(work)) {
  // Signals go to the rank's own threads: the new thread inherits a mask that blocks all.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void ProgressThread::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void ProgressThread::post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back({std::move(task), false});
  }
  wake_.notify_one();
}

void ProgressThread::post_last(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back({std::move(task), true});
  }
  wake_.notify_one();
}

ProgressThread::Attention::Attention(ProgressThread& thread) : thread_(thread) {
  {
    const std::lock_guard lock(thread_.mutex_);
    ++thread_.watchers_;
  }
  thread_.wake_.notify_one();
}

ProgressThread::Attention::~Attention() {
  const std::lock_guard lock(thread_.mutex_);
  --thread_.watchers_;
}

void ProgressThread::run() {
  // Otherwise short sleeps are rounded up by 50 us.
  prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
  Clock::time_point last_event = Clock::now();
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (stop_) return;
    }
    const bool moved = step();
    const auto now = Clock::now();
    if (moved) {
      last_event = now;
    } else {
      pause(now - last_event);
    }
  }
}

bool ProgressThread::step() {
  std::vector<Task> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
  }
  for (const Task& task : tasks)
    if (!broken_ || task.also_when_broken) guarded(task.run);
  bool moved = !tasks.empty();
  if (!broken_) guarded([&] { moved = work_.poll() || moved; });
  return moved;
}

void ProgressThread::guarded(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception& error) {
    broken_ = true;
    work_.broke(error);
  }
}

void ProgressThread::pause(Clock::duration quiet) {
  const Pace pace = broken_ ? Pace::kIdle : work_.pace();
  std::unique_lock lock(mutex_);
  if (stop_ || !tasks_.empty()) return;
  const Clock::duration length = pause_length(pace, watchers_ > 0, quiet);
  if (length > Clock::duration::zero()) {
    wake_.wait_for(lock, length);
  } else {
    lock.unlock();
    sched_yield();
  }
}

namespace {

Clock::duration pause_length(Pace pace, bool watched, Clock::duration quiet) {
  const bool moving = pace == Pace::kMoving && quiet < kMovingPatience;
  if (watched && (moving || quiet < kSpin)) return Clock::duration::zero();
  if (moving) return kMovingPause;
  if (pace == Pace::kIdle && !watched) return kIdlePause;
  if (watched)
    return std::clamp<Clock::duration>(quiet / kQuietPerWatchedPause, kShortestWatchedPause,
                                       kLongestWatchedPause);
  return std::clamp<Clock::duration>(quiet / kQuietPerPause, kShortestPause, kLongestPause);
}

}  // namespace
}  // namespace trireme::comm
