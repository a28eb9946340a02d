// Which outputs to keep so that a chain needs least memory when everything else is recomputed once,
// segment by segment (Hong, Tsai, Wang, Liu, Wu 2025, "GPU memory usage optimization for backward
// propagation").
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/core/units.h"

#include <vector>

namespace trireme::solve {

/// Segments by their first layers, ascending; the input of each is kept. The last segment is taped
/// in the forward, the others right before their backward.
struct Segments {
  std::vector<int> starts;
  Bytes value;  ///< value of the minimised objective
};

/// Least peak, with tapes, transients and gradients: `value` is the peak that replay finds. O(L^2).
Segments least_peak(const chain::Chain& chain, int first, int last);

/// Least sum of kept outputs and the largest segment's tapes, the simpler objective of the older
/// formulation (also Feng and Huang 2021). O(L^3).
Segments least_sum(const chain::Chain& chain, int first, int last);

}  // namespace trireme::solve
