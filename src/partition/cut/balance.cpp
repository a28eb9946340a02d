// SPDX-License-Identifier: Apache-2.0
#include "trireme/partition/balance.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <limits>

namespace trireme::partition {

std::vector<int> balanced_cut(const std::vector<double>& work, int stages) {
  const std::size_t layers = work.size();
  const auto parts = static_cast<std::size_t>(std::max(stages, 1));
  if (parts > layers) {
    throw InputError(concat("cannot cut ", layers, " layers into ", stages,
                            " stages: every stage needs a layer; use at most ", layers));
  }
  std::vector<double> before(layers + 1, 0);  // work of layers 1..i
  for (std::size_t i = 0; i < layers; ++i) before[i + 1] = before[i] + work[i];

  // best[k][i]: the least heaviest run when layers i+1..L make k stages; end[k][i]: where the first
  // of them ends.
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector best(parts + 1, std::vector<double>(layers + 1, kNever));
  std::vector end(parts + 1, std::vector<std::size_t>(layers + 1, 0));
  best[0][layers] = 0;
  for (std::size_t k = 1; k <= parts; ++k) {
    for (std::size_t i = 0; i + k <= layers; ++i) {
      for (std::size_t e = i + 1; e + (k - 1) <= layers;
           ++e) {  // the shortest first stage wins a tie
        const double heaviest = std::max(before[e] - before[i], best[k - 1][e]);
        if (heaviest < best[k][i]) {
          best[k][i] = heaviest;
          end[k][i] = e;
        }
      }
    }
  }
  std::vector<int> cut;
  std::size_t i = 0;
  for (std::size_t k = parts; k > 1; --k) {
    i = end[k][i];
    cut.push_back(static_cast<int>(i));
  }
  return cut;
}

}  // namespace trireme::partition
