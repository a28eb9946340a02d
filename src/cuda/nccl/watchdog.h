// Watchdog for a rank that hangs inside CUDA because an NCCL message on the device never ends (its
// peer died). The rank's own waits notice that themselves; they cannot notice a call that does not
// return, such as one that synchronizes the whole device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace trireme::comm {

/// Calls `look` about every `interval` on a thread of its own.
class Watchdog {
 public:
  Watchdog(Seconds interval, std::function<void()> look);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void run(Seconds interval, const std::function<void()>& look);

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace trireme::comm
