// Whether the steps of a run took about the same time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"

#include <span>
#include <string>

namespace trireme::record {

/// Where one step in ten or more took over twice the median: that, and what to do, as a line that
/// begins with "note: "; nothing else, nor of fewer than 20 steps after the first, which is not
/// counted. `threads` are those of every rank.
std::string scatter_note(std::span<const Seconds> steps, int threads);

}  // namespace trireme::record
