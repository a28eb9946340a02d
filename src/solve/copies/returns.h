// Tensors that come back between the actions of a backward list.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/program/action.h"

#include <cstddef>
#include <vector>

namespace trireme::solve {

/// The copy of a tensor, and which action of the backward list it stands before.
struct Return {
  program::Action action;
  Bytes size;
  std::size_t before = 0;
};

/// Returns in the order of need, each before what needs it, are moved to where they come as early
/// as they fit, those that are needed first before the others. `during`: bytes of the backward
/// actions with all returns as late as can be; `room`: what they and the returns may take.
void return_early(std::vector<Return>& returns, std::vector<Bytes> during, Bytes room);

/// The backward list with its returns, which are in its order.
std::vector<program::Action> merged(const std::vector<program::Action>& backward,
                                    const std::vector<Return>& returns);

}  // namespace trireme::solve
