// SPDX-License-Identifier: Apache-2.0
#include "trireme/partition/balance.h"

#include "least_cut.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <limits>

namespace trireme::partition {

std::vector<int> balanced_cut(const std::vector<double>& work, int stages) {
  const int layers = static_cast<int>(work.size()), parts = std::max(stages, 1);
  if (parts > layers) {
    throw InputError(concat("cannot cut ", layers, " layers into ", stages,
                            " stages: every stage needs a layer; use at most ", layers));
  }
  std::vector<double> before(work.size() + 1, 0);  // work of layers 1..i
  for (std::size_t i = 0; i < work.size(); ++i) before[i + 1] = before[i] + work[i];
  // Layers and stages are counted from the end, so that of equal cuts the first stages are short.
  const std::optional<Cut> mirrored = least_cut(
      all_ends(layers, parts), std::numeric_limits<double>::infinity(),
      [&](int, chain::LayerRange run, double others, double) -> std::optional<double> {
        return std::max(before[at(layers + 1 - run.first)] - before[at(layers - run.last)], others);
      });
  std::vector<int> cut;
  for (int k = parts - 2; k >= 0; --k) cut.push_back(layers - mirrored.value()[at(k)]);
  return cut;
}

}  // namespace trireme::partition
