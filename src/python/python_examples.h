// Examples of a Python object.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "python.h"

#include "trireme/data/own_examples.h"

#include <memory>

namespace trireme::python {

/// The examples of an object with `size`, `name` and `example(number)`: input and target. What an
/// example draws from the default generator depends on its number alone. Throws Raised for errors
/// of Python.
std::unique_ptr<data::OwnExamples> examples_of(Held object);

}  // namespace trireme::python
