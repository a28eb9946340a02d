// Points in a device's work, and when they were reached.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

namespace trireme::device {

/// Marks set by one thread into what it gives the device to do. On a device that works while the
/// host goes on, a mark is reached when all that was given before it is done; on CPU, at once.
class Marks {
 public:
  using Clock = std::chrono::steady_clock;
  using Mark = std::int64_t;

  virtual ~Marks() = default;
  Marks() = default;
  Marks(const Marks&) = delete;
  Marks& operator=(const Marks&) = delete;

  /// Forgets earlier marks. The device should have nothing left to do.
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
