// Contiguous layers of a chain.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <string>

namespace trireme::chain {

/// Layers first..last, both included. One value, so that neither can be taken for a stage, a rank
/// or a number in flight next to it.
struct LayerRange {
  int first = 1, last = 1;

  constexpr int size() const { return last - first + 1; }
  constexpr auto operator<=>(const LayerRange&) const = default;
};

/// "layers 3..5", or "layer 3" for one.
std::string layers_text(LayerRange range);

}  // namespace trireme::chain
