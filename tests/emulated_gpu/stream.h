// Streams of an emulated GPU: queues of work that a thread for each does as late as it may.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "timed.h"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

namespace emulated {

using Clock = std::chrono::steady_clock;

/// Work queued on a stream is done in order, and late: not before somebody waits for it, or the
/// process has queued nothing on any stream for a while. Code that uses a result without having
/// waited for it finds the old content, every time and not only now and then.
///
/// With TRIREME_EMULATED_GPU=late_compute, only the streams that kernels run on by default are
/// late, all others as early as they may: code that copies or sends results that are not computed
/// yet is found out, too.
///
/// Lives until the process ends.
class Stream {
 public:
  enum class Pace { kLate, kEarly };

  Stream(int device, Pace pace) : device_(device), pace_(pace) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  int device() const { return device_; }
  Pace pace() const { return pace_; }

  /// Queues work; returns its number, from 1. `time` is what it takes where GPUs are timed, on
  /// `link` if there is one.
  std::uint64_t give(std::function<void()> work, Clock::duration time = {}, Link* link = nullptr);
  /// Blocks until the work of that number, or all queued so far, is done, and hastens it.
  void finish(std::uint64_t number);
  void finish();
  /// As finish(), and counts as a wait of the host.
  void finish_for_host();
  /// Blocks until it is done, without haste.
  void await(std::uint64_t number);
  bool is_done(std::uint64_t number);
  bool is_done();

  /// Where GPUs are timed: when all work queued so far is done.
  End end();
  /// Work queued from here on begins no earlier.
  void hold_until(const End& end);
  /// Queues one side of a message, which ends when both have met.
  void meet(const Moment::Ptr& message);

 private:
  struct Work {
    std::function<void()> run;
    Clock::time_point given;
  };
  [[noreturn]] void work();
  /// Does the next work, of which there must be some, without the lock.
  void perform(std::unique_lock<std::mutex>& lock);
  /// Blocks until the work of that number is done, or `latest`.
  void await(std::uint64_t number, std::unique_lock<std::mutex>& lock,
             std::optional<Clock::time_point> latest = {});
  void close();
  Clock::time_point due(Clock::time_point given) const;

  const int device_;
  const Pace pace_;
  std::mutex mutex_;
  // Kernels take less time than waking a thread: who waits does the work itself where nobody is at
  // it, and the stream's thread is woken only where it does not look by itself.
  std::condition_variable hurry_;    ///< for the stream's thread: work, or haste
  std::condition_variable reached_;  ///< for others: work is done that one of them awaits
  std::deque<Work> left_;
  std::uint64_t given_ = 0, done_ = 0, wanted_ = 0;
  std::multiset<std::uint64_t> awaited_;
  bool has_thread_ = false, is_busy_ = false, is_asleep_ = false;
  End end_;
};

/// The state of a cudaEvent_t: the last place where it was recorded.
class Event {
 public:
  void record(Stream& stream);
  /// Work queued on `stream` from here on runs after the place.
  void block(Stream& stream);
  void finish_for_host();
  bool is_reached();
  bool is_recorded() const { return place_ != nullptr; }
  /// When it was reached.
  Clock::time_point time() const { return is_timed() ? place_->end.await() : place_->time; }

 private:
  struct Place {
    Stream* stream = nullptr;
    std::uint64_t number = 0;
    Clock::time_point time;
    End end;  ///< where GPUs are timed
  };
  std::shared_ptr<Place> place_;
};

}  // namespace emulated

extern "C" {
/// For the library of kernels: a kernel begins or ends. Meanwhile the process does not count as
/// quiet, and waits are not counted as the host's.
void emulated_gpu_kernel(bool begins);
/// For the library of kernels: queues a kernel that takes that long on a cudaStream_t.
void emulated_gpu_busy(void* stream, double seconds);
/// For tests: how often the host has waited for a device so far. Found by dlsym.
std::int64_t emulated_gpu_host_waits();
}
