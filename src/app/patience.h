// What a command is doing, said where it takes long.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace trireme::app {

/// Prints a line to standard error after three seconds, once, unless it is destroyed before. Made
/// around work that prints nothing itself.
class Patience {
 public:
  /// `words` without the end of the line.
  explicit Patience(std::string words);
  ~Patience();
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool has_ended_ = false;
  std::thread thread_;
};

}  // namespace trireme::app
