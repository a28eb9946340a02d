// Longest common prefixes of all pairs of layers, row by row.
//
// SPDX-License-Identifier: Apache-2.0
#include "equal_layers.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace trireme::solve {
namespace {

// Two layers with the same number cost the same.
std::vector<int> kinds(const chain::Chain& chain, int first, int last,
                       EqualLayers::Backwards backwards) {
  using Key =
      std::tuple<double, double, double, Bytes, Bytes, Bytes, Bytes, Bytes, Bytes, Bytes, Bytes>;
  std::map<Key, int> numbers;
  std::vector<int> result;
  for (int i = first; i <= last; ++i) {
    const chain::LayerCost& layer = chain.layer(i);
    const bool any = backwards == EqualLayers::Backwards::kAnyTime;
    const chain::Retape again = layer.again();
    const Key key(layer.forward.count(), again.time.count(), any ? 0 : layer.backward.count(),
                  layer.output, layer.tape, layer.forward_transient, layer.tape_transient,
                  layer.backward_transient, again.tape, again.tape_transient,
                  again.backward_transient);
    result.push_back(numbers.emplace(key, static_cast<int>(numbers.size())).first->second);
  }
  return result;
}

}  // namespace

EqualLayers::EqualLayers(const chain::Chain& chain, int first, int last, Backwards backwards)
    : first_(first) {
  const std::vector<int> kind = kinds(chain, first, last, backwards);
  const std::size_t n = kind.size();
  row_.resize(n);
  std::size_t total = 0;
  for (std::size_t s = 0; s < n; ++s) {
    row_[s] = total;
    total += n - s;
  }
  twins_.resize(total);
  // common[u]: length of the equal runs that begin at s and at u, for u > s.
  std::vector<std::size_t> common(n + 1, 0);
  for (std::size_t s = n; s-- > 0;) {
    for (std::size_t u = s + 1; u < n; ++u) {
      common[u] = kind[s] == kind[u] ? common[u + 1] + 1 : 0;
    }
    std::size_t assigned = 0;  // lengths up to here have a twin
    for (std::size_t u = n; u-- > s + 1;) {
      for (; assigned < common[u]; ++assigned) {
        twins_[row_[s] + assigned] = static_cast<std::uint16_t>(u);
      }
    }
    different_ += n - s - assigned;
    for (; assigned < n - s; ++assigned) {
      twins_[row_[s] + assigned] = static_cast<std::uint16_t>(s);
    }
  }
}

}  // namespace trireme::solve
