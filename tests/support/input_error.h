// What an action says when it refuses its input.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/error.h"

#include <string>

namespace trireme::support {

/// The message of the InputError that `action` throws; says so when it throws none.
template <class Action>
std::string input_error(Action&& action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no InputError was thrown";
}

}  // namespace trireme::support
