// Split backward (zero bubble): the gradient that the previous stage waits for is computed and sent
// first; the gradients of weights, which no rank waits for, are deferred to fill the bubble.
//
// Qi, Wan, Huang and Lin 2024 (Zero Bubble Pipeline Parallelism). With the weight gradients of
// stage k of p (0-based) deferred by k backward passes, 1F1B becomes their ZB-H1, whose ranks wait
// a third as long where both parts and a forward take the same time; 3 stages, 4 micro-batches:
//
//     0 | F0 F1 F2 .. .. B0 W0 F3 B1 W1 B2 W2 B3 W3
//     1 | .. F0 F1 .. B0 F2 B1 W0 F3 B2 W1 B3 W2 W3
//     2 | .. .. F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/program/action.h"

#include <optional>
#include <vector>

namespace trireme::program {

/// By rank, the number of backward passes by which weight gradients are deferred: with 0 they
/// follow what the pass sends, with n they run after n more passes. Nothing: backwards are not
/// split.
using WeightsBehind = std::vector<std::optional<int>>;

/// The program with split backwards on the ranks that have a number. Gradients of weights are added
/// in the order of the micro-batches, as before. For ranks with one stage and without groups.
Program with_split_backward(Program program, const WeightsBehind& behind);

}  // namespace trireme::program
