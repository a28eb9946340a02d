// Detects runs whose step times vary.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"

#include <span>
#include <string>

namespace trireme::record {

/// If one step in ten or more took over twice the median: a line that begins with "note: " and says
/// so, and what to do; else empty, as for fewer than 20 steps after the first, which is not
/// counted. `threads` are those of every rank.
std::string scatter_note(std::span<const Seconds> steps, int threads);

}  // namespace trireme::record
