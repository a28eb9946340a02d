// Plans that are made again with less memory until they are within their budgets: what solvers
// count for a stage is not all that a rank needs at once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "judge.h"

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace trireme::partition {

/// What `make(less)` judges, asked again with so much less for every rank that is over its budget,
/// at most `rounds` times. `less`, by rank, is where it begins and what it has ended with. Nothing
/// where `make` has nothing, and where the outer tier alone is over: less on the device is no help
/// there.
template <class Make>
std::optional<Simulated> tightened(const Problem& problem, int rounds, std::vector<Bytes>& less,
                                   Make&& make) {
  for (int round = 0; round < rounds; ++round) {
    std::optional<Simulated> found = make(std::as_const(less));
    if (!found || is_within(problem, found->simulation)) return found;
    const std::vector<Bytes> over = excess(problem, found->simulation);
    bool is_over = false;
    for (std::size_t rank = 0; rank < less.size(); ++rank) {
      is_over = is_over || over[rank] > Bytes(0);
      less[rank] += over[rank];
    }
    if (!is_over) return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace trireme::partition
