// SPDX-License-Identifier: Apache-2.0
#include "effort.h"

namespace trireme::partition {

bool is_large(const Problem& problem) {
  constexpr int kMost = 2000;
  return problem.chain.length() * problem.stages > kMost;
}

}  // namespace trireme::partition
