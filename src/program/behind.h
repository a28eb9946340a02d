// Where actions that follow a pass are inserted.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/program/action.h"

#include <cstddef>
#include <vector>

namespace trireme::program {

/// The index after the action and after the send of its result, if there is one.
inline std::size_t behind(const std::vector<Action>& actions, std::size_t action) {
  const std::size_t next = action + 1;
  return next < actions.size() && is_send(actions[next].op) ? next + 1 : next;
}

}  // namespace trireme::program
