// The thread that makes every MPI call between start and end. It takes little CPU time from the
// rank's computing: it polls rarely when nothing is in progress, more often when something is, and
// spins only while a thread waits and something has just happened or is moving.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace trireme::comm {

/// What polling may find.
enum class Pace {
  kIdle,    ///< only control messages
  kOpen,    ///< a transfer may begin at any time
  kMoving,  ///< bytes are being transferred, which may need polling on both sides
};

class ProgressThread {
 public:
  struct Work {
    std::function<bool()> poll;  ///< makes progress; returns whether anything happened
    std::function<Pace()> pace;
    std::function<void(const std::exception&)> broke;  ///< poll or a task threw; neither runs again
  };

  explicit ProgressThread(Work work);
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;
  ~ProgressThread() { stop(); }
  /// Ends the loop after the current task or poll; tasks not started yet are dropped.
  void stop();

  /// Runs `task` on the thread soon, in the order of the calls; not at all once broken.
  void post(std::function<void()> task);
  /// The same, but also when broken.
  void post_last(std::function<void()> task);

  /// While one lives, the thread polls eagerly.
  class Attention {
   public:
    explicit Attention(ProgressThread& thread);
    Attention(const Attention&) = delete;
    Attention& operator=(const Attention&) = delete;
    ~Attention();

   private:
    ProgressThread& thread_;
  };

 private:
  struct Task {
    std::function<void()> run;
    bool also_when_broken = false;
  };

  void run();
  /// One iteration; returns whether anything happened.
  bool step();
  void guarded(const std::function<void()>& action);
  void pause(std::chrono::steady_clock::duration quiet);

  Work work_;
  bool broken_ = false;  // used by the thread alone

  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::vector<Task> tasks_;
  int watchers_ = 0;
  bool stop_ = false;

  std::thread thread_;
};

}  // namespace trireme::comm
