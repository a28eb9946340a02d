// SPDX-License-Identifier: Apache-2.0
#include "signals.h"

#include <unistd.h>

#include <atomic>
#include <csignal>

namespace trireme::app {
namespace {

constexpr int kInterruptedExit = 130;

std::atomic<int> signals_seen{0};  // NOLINT: what a signal handler may touch
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void on_signal(int /*signal*/) {
  if (signals_seen.fetch_add(1) >= 1) _exit(kInterruptedExit);
}

}  // namespace

void watch_signals() {
  struct sigaction action {};
  action.sa_handler = &on_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool stop_requested() {
  return signals_seen.load(std::memory_order_relaxed) > 0;
}

}  // namespace trireme::app
