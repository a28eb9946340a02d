// SPDX-License-Identifier: Apache-2.0
#include "trireme/ranks/signals.h"

#include "trireme/core/error.h"
#include "trireme/ranks/folder_lock.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <utility>

namespace trireme::ranks {
namespace {

constexpr int kInterruptedExit = 130;
constexpr std::chrono::milliseconds kLook{50};

// NOLINTBEGIN: what a signal handler may touch
std::atomic<int> signals_seen{0};
std::atomic<bool> save_seen{false};
// NOLINTEND
static_assert(std::atomic<bool>::is_always_lock_free);
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void on_signal(int /*signal*/) {
  if (signals_seen.fetch_add(1) >= 1) _exit(kInterruptedExit);
}

extern "C" void on_save_signal(int /*signal*/) {
  save_seen.store(true);
}

}  // namespace

WatchedSignals::WatchedSignals() {
  handle(SIGINT, &on_signal);
  handle(SIGTERM, &on_signal);
  // A closed terminal or connection ends a run cleanly, except under nohup.
  struct sigaction hangup {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) handle(SIGHUP, &on_signal);
  handle(SIGUSR1, &on_save_signal);
  // Exceeding the file size limit becomes an error of the write, which says so.
  handle(SIGXFSZ, SIG_IGN);
  // Blocked since this process was `trireme` (src/app/main.cpp): a signal that arrived meanwhile is
  // delivered now.
  sigset_t held;
  sigemptyset(&held);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaddset(&held, signal);
  pthread_sigmask(SIG_UNBLOCK, &held, nullptr);
}

WatchedSignals::~WatchedSignals() {
  for (const Before& one : before_) sigaction(one.signal, &one.action, nullptr);
  signals_seen = 0;
  save_seen = false;
}

void WatchedSignals::handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  Before& before = before_.emplace_back(Before{.signal = signal});
  sigaction(signal, &action, &before.action);
}

bool stop_requested() {
  return signals_seen.load(std::memory_order_relaxed) > 0;
}

void require_not_stopped() {
  if (stop_requested()) throw Interrupted("stopped on request before the job began");
}

bool save_and_stop_requested() {
  return save_seen.load(std::memory_order_relaxed);
}

StopsAtOnce::StopsAtOnce(std::string doing)
    : doing_(std::move(doing)), watcher_([this](const std::stop_token& ended) { watch(ended); }) {}

StopsAtOnce::~StopsAtOnce() {
  watcher_.request_stop();
}

void StopsAtOnce::watch(const std::stop_token& ended) {
  std::unique_lock lock(mutex_);
  // A signal handler cannot wake a thread: poll.
  while (!stop_requested()) {
    ends_.wait_for(lock, ended, kLook, [] { return false; });
    if (ended.stop_requested()) return;
  }
  static std::atomic_flag is_told;
  if (is_told.test_and_set()) return;  // another rank of this process ends it
  FolderLock::give_back_all();
  std::cerr << "trireme: stopped on request while " << doing_ << ": no step was trained"
            << std::endl;  // NOLINT: before the end
  std::_Exit(kInterruptedExit);
}

}  // namespace trireme::ranks
