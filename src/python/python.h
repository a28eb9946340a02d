// Python and pybind11 as LibTorch's headers bring them, and objects that C++ may hold.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <memory>

namespace trireme::python {

namespace py = pybind11;

/// An object that is copied and dropped by threads that do not hold the GIL.
using Held = std::shared_ptr<py::object>;
Held held(py::object object);

/// Keeps this thread's Python state until the thread ends: without it, each acquisition of the GIL
/// makes a new one, and an error that is set there is lost with it. Call without the GIL.
void keep_thread_state();

}  // namespace trireme::python
