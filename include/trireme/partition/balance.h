// Balanced cuts of a chain into pipeline stages.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace trireme::partition {

/// The cut into `stages` non-empty runs of consecutive layers that minimizes the heaviest run
/// (exact, O(stages x L^2)); ties go to the cut with the lightest earlier stages. Returns the last
/// layer of every stage but the last, as `pipeline.cut`. Throws InputError when there are fewer
/// layers than stages.
std::vector<int> balanced_cut(const std::vector<double>& work, int stages);

}  // namespace trireme::partition
