// What a command is doing, said where it takes long.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <thread>

namespace trireme::app {

/// Prints a line to standard error after three seconds, once, unless it is destroyed before. Made
/// around work that prints nothing itself.
class Patience {
 public:
  /// `words` without the end of the line.
  explicit Patience(std::string words);

 private:
  std::jthread thread_;
};

}  // namespace trireme::app
