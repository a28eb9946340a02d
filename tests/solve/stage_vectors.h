// Vectors of stages with several micro-batches in flight.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <utility>
#include <vector>

namespace trireme::solve {

/// (least memory, time) with ascending memory.
using StageSteps = std::vector<std::pair<int, double>>;

/// Chain A (f=2,3,1,4; b=3,5,2,6; x=1,2,1,2,1; tapes 4,3,5,2) without its loss, by micro-batches in
/// flight: exhaustive search over all programs.
inline const std::map<int, StageSteps>& chain_a_stages() {
  static const std::map<int, StageSteps> kStages{{2,
                                                  {{11, 44},
                                                   {12, 39},
                                                   {13, 37},
                                                   {14, 35},
                                                   {15, 33},
                                                   {16, 32},
                                                   {18, 30},
                                                   {20, 29},
                                                   {25, 28},
                                                   {28, 27},
                                                   {33, 26}}},
                                                 {3,
                                                  {{12, 44},
                                                   {13, 42},
                                                   {14, 39},
                                                   {15, 37},
                                                   {16, 36},
                                                   {18, 35},
                                                   {19, 33},
                                                   {20, 32},
                                                   {24, 30},
                                                   {26, 29},
                                                   {36, 28},
                                                   {38, 27},
                                                   {48, 26}}},
                                                 {4,
                                                  {{13, 44},
                                                   {14, 42},
                                                   {15, 39},
                                                   {17, 37},
                                                   {18, 36},
                                                   {21, 35},
                                                   {23, 33},
                                                   {24, 32},
                                                   {30, 30},
                                                   {32, 29},
                                                   {46, 28},
                                                   {48, 27},
                                                   {63, 26}}}};
  return kStages;
}

}  // namespace trireme::solve
