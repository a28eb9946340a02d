// The optimal cut by dynamic programming, for times, memory or plain work.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "values/cut.h"
#include "values/lookup.h"

#include "trireme/chain/layer_range.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace trireme::partition {

inline int first_of(const Cut& cut, int stage) {
  return stage == 0 ? 1 : cut[at(stage - 1)] + 1;
}
inline chain::LayerRange layers_of(const Cut& cut, int stage) {
  return {first_of(cut, stage), cut[at(stage)]};
}

/// Binomial coefficient: ways to choose `count` of `from`, as a cut's ends among a chain's layers.
inline double choose(int from, int count) {
  double ways = 1;
  for (int i = 0; i < count; ++i) ways *= static_cast<double>(from - i) / (i + 1);
  return ways;
}

/// Range of each stage's last layer.
struct Ends {
  std::vector<int> least, most;
};

/// Ranges that leave every other stage a layer.
inline Ends all_ends(int layers, int stages) {
  Ends ends;
  for (int k = 0; k < stages; ++k) {
    ends.least.push_back(k + 1 == stages ? layers : k + 1);
    ends.most.push_back(layers - (stages - 1 - k));
  }
  return ends;
}

/// The cut of least value, if below `enough`; ties go to the shortest last stages. `value(k, run,
/// before, least)` is the value of stages up to k where k has the layers `run` and the stages
/// before it have the value `before`. It may return any number >= `least` for a value that is not
/// below `least`, and empty where longer stages k are not below it either.
template <class Amount, class Value>
std::optional<Cut> least_cut(const Ends& ends, Amount enough, Value&& value) {
  const int stages = static_cast<int>(ends.most.size()), layers = ends.most.back();
  std::vector values(at(stages + 1), std::vector<Amount>(at(layers + 1), enough));
  std::vector begins(at(stages), std::vector<int>(at(layers + 1), 1));
  values[0][0] = Amount{};
  for (int k = 0; k < stages; ++k) {
    const int least_first = k == 0 ? 1 : ends.least[at(k - 1)] + 1;
    const int most_first = k == 0 ? 1 : ends.most[at(k - 1)] + 1;
    for (int last = ends.least[at(k)]; last <= ends.most[at(k)]; ++last) {
      Amount& least = values[at(k + 1)][at(last)];
      for (int first = std::min(most_first, last); first >= least_first; --first) {
        const Amount before = values[at(k)][at(first - 1)];
        if (before >= least) continue;
        const std::optional<Amount> all = value(k, {first, last}, before, least);
        if (!all) break;
        if (*all >= least) continue;
        least = *all;
        begins[at(k)][at(last)] = first;
      }
    }
  }
  if (values[at(stages)][at(layers)] >= enough) return std::nullopt;
  Cut cut(at(stages), layers);
  for (int k = stages - 1; k > 0; --k) cut[at(k - 1)] = begins[at(k)][at(cut[at(k)])] - 1;
  return cut;
}

}  // namespace trireme::partition
