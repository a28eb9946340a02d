// A worker thread for copies to and from the offload tier, which run concurrently with compute.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace trireme::tier {

/// One thread that runs posted work in FIFO order. After an error the remaining work is not run,
/// and every wait throws that error again.
class CopyLane {
 public:
  using Clock = std::chrono::steady_clock;
  /// When an item of work ran.
  struct Span {
    Clock::time_point begin, end;

    Seconds time() const { return to_seconds(end - begin); }
  };
  using Ticket = std::uint64_t;  ///< 1, 2, ... in the order of posting

  CopyLane();
  /// Waits for the running work; queued work is dropped.
  ~CopyLane();
  CopyLane(const CopyLane&) = delete;
  CopyLane& operator=(const CopyLane&) = delete;

  Ticket post(std::function<void()> work);
  /// Blocks until the work with that ticket has ended.
  void wait(Ticket ticket);
  /// Blocks until all posted work has ended, or was dropped after an error, which is thrown.
  void drain();
  /// Drops work that has not begun, waits for the rest and clears any error.
  void abandon() noexcept;

  /// When all work since the last call ran, in order.
  std::deque<Span> take_spans();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  std::deque<Span> spans_;
  std::exception_ptr error_;
  Ticket posted_ = 0, ended_ = 0;
  bool is_running_ = false, stops_ = false;
  std::thread thread_;
};

}  // namespace trireme::tier
