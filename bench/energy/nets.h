// Nets as graphs, with sizes and FLOPs for images of 32 x 32 or sequences of 128 tokens.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/graph/problem.h"

namespace trireme::poet {

graph::Graph vgg16();            ///< a chain of operators, 81 nodes
graph::Graph bert24();           ///< a chain of blocks, 51 nodes
graph::Graph resnet18();         ///< convolutions with norm and ReLU, sums: 61 nodes
graph::Graph resnet18_fine();    ///< every operator, 133 nodes

/// On a Cortex-M4F with flash: 6.37 MFLOP/s, 580 MFLOP/J, 4.6 and 4.4 MB/s at 0.33 W (POET, ICML
/// 2022, nRF52840). Capacity without end, no limit on memory yet.
graph::Problem on_m4f(graph::Graph graph);

}  // namespace trireme::poet
