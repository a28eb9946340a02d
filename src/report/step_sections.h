// The part of a page about one step: figures, pictures, tables.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "step_figures.h"

#include "trireme/chain/chain.h"

#include <string>

namespace trireme::report {

/// All sections about the step. Unknown values are left out.
std::string step_sections(const StepFigures& step, const chain::Chain& chain);

/// "26 layers, 4 micro-batches per step, one stage, by rotor".
std::string shape_text(const plan::Plan& plan);

}  // namespace trireme::report
