// Signal handling. Ctrl-C, SIGTERM and SIGHUP end a run between two actions, with everything
// closed, or at once where there is nothing to close; a second one ends the process at once.
// SIGUSR1, which mpirun and batch systems pass on, asks for a checkpoint first.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

namespace trireme::ranks {

/// From now on SIGINT and SIGTERM set the stop flag, SIGUSR1 the save flag; so does a signal that
/// arrived before, while it was blocked. Called by the main thread before there are others.
void watch_signals();
bool stop_requested();
/// Throws Interrupted if a stop was requested before there was anything to close.
void require_not_stopped();
bool save_and_stop_requested();

/// While it lives, a requested stop ends the process at once with exit code 130, after releasing
/// the locks of folders: for minutes of work that has nothing to save.
class StopsAtOnce {
 public:
  /// `doing` is for the message: "stopped on request while a plan is made".
  explicit StopsAtOnce(std::string doing);
  ~StopsAtOnce();
  StopsAtOnce(const StopsAtOnce&) = delete;
  StopsAtOnce& operator=(const StopsAtOnce&) = delete;

 private:
  void watch(const std::stop_token& ended);

  std::string doing_;
  std::mutex mutex_;
  std::condition_variable_any ends_;
  std::jthread watcher_;
};

}  // namespace trireme::ranks
