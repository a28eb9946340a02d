// SPDX-License-Identifier: Apache-2.0
#include "axis.h"

#include <algorithm>

namespace trireme::partition {

const Axes& axes() {
  static const Axes kAxes{.in_turns = {&kStreamedWeights, &kOptimizerState, &kWeightsAtOnce,
                                       &kGroups, &kUpdates, &kJoint, &kSplitBackward},
                          .at_last = {&kSolvers, &kIdleMemory, &kSplitBackward, &kCut, &kChunks}};
  return kAxes;
}

std::vector<const Axis*> Axes::all() const {
  std::vector<const Axis*> all = in_turns;
  for (const Axis* const axis : at_last)
    if (std::find(all.begin(), all.end(), axis) == all.end()) all.push_back(axis);
  return all;
}

bool has_places(const Question& question) {
  for (const Axis* const axis : {&kStreamedWeights, &kOptimizerState, &kWeightsAtOnce, &kGroups})
    if (axis->is_open(question)) return true;
  return false;
}

}  // namespace trireme::partition
