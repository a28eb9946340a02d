// Errors, by who must act. Expected outcomes (an infeasible budget) are values, not errors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

namespace trireme {

/// Root of everything that Trireme throws. The message says where, what was found, what was
/// expected, what to do.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The user's input is wrong: a file, a key, an option. Commands exit with 2.
class InputError : public Error {
 public:
  using Error::Error;
};

/// A peer did not answer, died, or broke the protocol. Commands exit with 1.
class CommError : public Error {
 public:
  using Error::Error;
};

/// The device refused: out of memory, budget exceeded. Commands exit with 1.
class DeviceError : public Error {
 public:
  using Error::Error;
};

/// The user asked to stop (Ctrl-C, SIGTERM). Commands exit with 130.
class Interrupted : public Error {
 public:
  using Error::Error;
};

/// A defect of Trireme itself: `ensure` failed.
class LogicError : public Error {
 public:
  using Error::Error;
};

/// The message of `error`, without the stack trace that LibTorch appends.
std::string words_of(const std::exception& error);

/// Throws LogicError with the caller's source location unless `condition` holds. For programmer's
/// errors only: user input must never reach it.
void ensure(bool condition, std::string_view text,
            std::source_location where = std::source_location::current());

}  // namespace trireme
