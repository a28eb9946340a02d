// Signal handling. Ctrl-C, SIGTERM and SIGHUP end a run between two actions, with everything
// closed, or at once where there is nothing to close; a second one ends the process at once.
// SIGUSR1, which mpirun and batch systems pass on, asks for a checkpoint first.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <csignal>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

namespace trireme::ranks {

/// While it lives, SIGINT and SIGTERM set the stop flag, SIGUSR1 the save flag; so does a signal
/// that arrived before, while it was blocked. Made by the thread that runs a command before there
/// are others, one at a time. Afterwards the handlers that were there are there again, and the
/// flags are down: a process may run several commands.
class WatchedSignals {
 public:
  WatchedSignals();
  ~WatchedSignals();
  WatchedSignals(const WatchedSignals&) = delete;
  WatchedSignals& operator=(const WatchedSignals&) = delete;

 private:
  void handle(int signal, void (*handler)(int));

  struct Before {
    int signal = 0;
    struct sigaction action {};
  };
  std::vector<Before> before_;
};

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
