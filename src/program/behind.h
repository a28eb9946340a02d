// Where what follows a pass may stand.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/program/action.h"

#include <cstddef>
#include <vector>

namespace trireme::program {

/// The place behind the action and what sends on what it made.
inline std::size_t behind(const std::vector<Action>& actions, std::size_t action) {
  const std::size_t next = action + 1;
  return next < actions.size() && is_send(actions[next].op) ? next + 1 : next;
}

}  // namespace trireme::program
