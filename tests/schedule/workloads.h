// Workloads of tests.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/schedule/search.h"

#include <random>

namespace trireme::schedule {

/// Whole random numbers that do not depend on the standard library.
class Drawn {
 public:
  explicit Drawn(unsigned seed) : random_(seed) {}
  int from(int least, int most) {
    return least + static_cast<int>(random_() % static_cast<unsigned>(most - least + 1));
  }
  bool one_in(int count) { return from(1, count) == 1; }

 private:
  std::mt19937 random_;
};

struct Size {
  int ranks = 1, per_rank = 1, micro_batches = 1;
};

/// V-shaped or round robin; times of whole seconds; some chunks whose backwards are not split, some
/// workloads with messages that take time, with parts of backwards that run ahead, with bytes
/// needed only while a pass runs; rooms from a little less than what one micro-batch needs, or
/// none.
Workload drawn_workload(const Size& size, Drawn& drawn);

/// V-shaped, all chunks alike; times are those of a rank's chunks together. Rooms are in units of
/// what a rank keeps of one micro-batch, all of which its W's hold.
struct Even {
  Size size;
  double room = 1;
  double forward = 1, backward = 1, weights = 1;

  Workload workload() const;
};

}  // namespace trireme::schedule
