// SPDX-License-Identifier: Apache-2.0
#include "nccl/watchdog.h"

#include <chrono>
#include <utility>

namespace trireme::comm {

Watchdog::Watchdog(Seconds interval, std::function<void()> look)
    : thread_([this, interval, look = std::move(look)] { run(interval, look); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Watchdog::run(Seconds interval, const std::function<void()>& look) {
  std::unique_lock lock(mutex_);
  const std::chrono::duration<double> pause(interval.count());
  while (!changed_.wait_for(lock, pause, [this] { return stops_; })) {
    lock.unlock();
    look();
    lock.lock();
  }
}

}  // namespace trireme::comm
