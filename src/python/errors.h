// Errors on their way between Python and C++.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "python.h"

#include "trireme/core/error.h"
#include "trireme/model/foreign.h"

#include <memory>
#include <string>

namespace trireme::python {

/// An error raised by the caller's own function (data, a callback), or a SystemExit of a layer:
/// train() raises it again as it is.
class Raised final : public Error {
 public:
  /// `error` was just caught; the GIL is held.
  Raised(const std::string& where, py::error_already_set error);
  /// Raises it. The GIL is held.
  [[noreturn]] void raise_again() const { throw *error_; }

 private:
  std::shared_ptr<py::error_already_set> error_;
};

/// For model::EarlyEndScope: an early end passes Python's frames as a BaseException, so that
/// `with` and `finally` run and no `except Exception` stops it.
[[noreturn]] void throw_early_end();

/// Throws what a Python error in a layer stands for: EarlyEnd, Interrupted for KeyboardInterrupt,
/// Raised for SystemExit, c10::OutOfMemoryError, otherwise an InputError with the error's type,
/// message and the lines of the caller's code, after `where` if it is not empty. The GIL is held.
[[noreturn]] void rethrow(const py::error_already_set& error, const std::string& where = "");

/// Converts errors that leave a backward as rethrow() does.
extern const model::ForeignBackwards kBackwards;

/// Called in a handler with the GIL held: raises the exception that Python code knows for it, of
/// trireme's own types, torch.OutOfMemoryError or KeyboardInterrupt.
[[noreturn]] void raise_in_python();

}  // namespace trireme::python
