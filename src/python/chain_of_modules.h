// A trireme.Chain of Python as a chain of recipes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "python.h"

#include "trireme/model/chain.h"

namespace trireme::python {

/// The factory of a kind of model: `make` is called with the job's `model` section as a dict
/// and returns a trireme.Chain. Errors that it raises are InputErrors of that section.
model::ModelFactory factory_of(py::object make);

}  // namespace trireme::python
