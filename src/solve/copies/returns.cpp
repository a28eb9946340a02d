// Returns moved to the earliest actions where they fit.
// SPDX-License-Identifier: Apache-2.0
#include "returns.h"

namespace trireme::solve {

void return_early(std::vector<Return>& returns, std::vector<Bytes> during, Bytes room) {
  std::size_t earliest = 0;
  for (Return& back : returns) {
    std::size_t& at = back.before;
    while (at > earliest && during[at - 1] + back.size <= room) during[--at] += back.size;
    earliest = at;
  }
}

std::vector<program::Action> merged(const std::vector<program::Action>& backward,
                                    const std::vector<Return>& returns) {
  std::vector<program::Action> all;
  auto back = returns.begin();
  for (std::size_t k = 0; k < backward.size(); ++k) {
    for (; back != returns.end() && back->before == k; ++back) all.push_back(back->action);
    all.push_back(backward[k]);
  }
  return all;
}

}  // namespace trireme::solve
