// Random numbers of a test.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <random>

namespace trireme::program {

/// roll(low, high) is one of low..high.
class Roll {
 public:
  explicit Roll(unsigned seed) : random_(seed) {}
  int operator()(int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random_);
  }

 private:
  std::mt19937 random_;
};

}  // namespace trireme::program
