// Prefetches between the actions of a backward list.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/program/action.h"

#include <cstddef>
#include <vector>

namespace trireme::solve {

/// The prefetch of a tensor, and the action of the backward list that it comes before.
struct Return {
  program::Action action;
  Bytes size;
  std::size_t before = 0;
};

/// Moves returns, given in the order of need and each before the action that needs it, to the
/// earliest actions where they fit, in the same order. `during`: bytes of the backward actions with
/// all returns as late as possible; `room`: what they and the returns may take.
void return_early(std::vector<Return>& returns, std::vector<Bytes> during, Bytes room);

/// The backward list with its returns, which are sorted by `before`.
std::vector<program::Action> merged(const std::vector<program::Action>& backward,
                                    const std::vector<Return>& returns);

}  // namespace trireme::solve
