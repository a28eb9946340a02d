// Marks in a device's queue of work, and the times at which they were reached.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

namespace trireme::device {

/// Marks that one thread sets in the work that it queues on the device. On an asynchronous device a
/// mark is reached when all work queued before it is done; on CPU, at once.
class Marks {
 public:
  using Clock = std::chrono::steady_clock;
  using Mark = std::int64_t;

  virtual ~Marks() = default;
  Marks() = default;
  Marks(const Marks&) = delete;
  Marks& operator=(const Marks&) = delete;

  /// Drops earlier marks. The device should be idle.
  virtual void begin() = 0;
  /// Never blocks.
  virtual Mark set() = 0;
  /// Blocks until every mark has been reached.
  virtual void settle() = 0;
  /// When a mark was reached; after settle().
  virtual Clock::time_point time(Mark mark) const = 0;
};

/// The host's clock: on CPU, work is done when its call returns.
class HostMarks final : public Marks {
 public:
  void begin() override {}
  Mark set() override { return Clock::now().time_since_epoch().count(); }
  void settle() override {}
  Clock::time_point time(Mark mark) const override {
    return Clock::time_point(Clock::duration(mark));
  }
};

}  // namespace trireme::device
