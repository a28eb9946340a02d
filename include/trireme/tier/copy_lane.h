// Work that runs beside compute, in order: copies to or from the offload tier.
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

/// One thread that runs what is posted to it, first in, first out. After an error the rest is not
/// run; every wait throws that error again.
class CopyLane {
 public:
  using Clock = std::chrono::steady_clock;
  /// When a piece of work ran.
  struct Span {
    Clock::time_point begin, end;

    Seconds time() const { return to_seconds(end - begin); }
  };
  using Ticket = std::uint64_t;  ///< 1, 2, ... in the order of posting

  CopyLane();
  /// Waits for the work under way; what waits behind it is given up.
  ~CopyLane();
  CopyLane(const CopyLane&) = delete;
  CopyLane& operator=(const CopyLane&) = delete;

  Ticket post(std::function<void()> work);
  /// Until the work of that ticket has ended.
  void wait(Ticket ticket);
  /// Until all that was posted has ended, or been given up after an error, which is thrown.
  void drain();
  /// Gives up what has not begun and waits for the rest; errors are forgotten.
  void abandon() noexcept;

  /// Ends of all work since the last call, in order.
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
