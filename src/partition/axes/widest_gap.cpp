// SPDX-License-Identifier: Apache-2.0
#include "widest_gap.h"

#include <algorithm>
#include <iterator>

namespace trireme::partition {

std::optional<double> middle_beside_fastest(std::vector<LookedAt> looked, double finest) {
  std::stable_sort(looked.begin(), looked.end(),
                   [](const LookedAt& a, const LookedAt& b) { return a.number < b.number; });
  const auto best =
      std::min_element(looked.begin(), looked.end(),
                       [](const LookedAt& a, const LookedAt& b) { return a.step < b.step; });
  const double here = best->number;
  const double below = best == looked.begin() ? here : std::prev(best)->number;
  const double above = std::next(best) == looked.end() ? here : std::next(best)->number;
  if (std::max(here - below, above - here) < finest) return std::nullopt;
  return (here + (above - here > here - below ? above : below)) / 2;
}

}  // namespace trireme::partition
