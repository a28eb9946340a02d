// Which passes of which layer a rank has run.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace trireme::simulate {

/// One bit per micro-batch and layer; grows on demand.
class Coverage {
 public:
  Coverage(int first_layer, int last_layer)
      : first_(first_layer), width_(static_cast<std::size_t>(last_layer - first_layer + 1)) {}

  /// Marks the pair; returns whether that is the first time.
  bool first_time(int layer, int micro_batch) {
    const std::size_t place = at(layer, micro_batch);
    if (place >= seen_.size()) seen_.resize((static_cast<std::size_t>(micro_batch) + 1) * width_);
    const bool first = !seen_[place];
    seen_[place] = true;
    return first;
  }
  bool has(int layer, int micro_batch) const {
    const std::size_t place = at(layer, micro_batch);
    return place < seen_.size() && seen_[place];
  }

 private:
  std::size_t at(int layer, int micro_batch) const {
    return static_cast<std::size_t>(micro_batch) * width_ +
           static_cast<std::size_t>(layer - first_);
  }

  int first_;
  std::size_t width_;
  std::vector<bool> seen_;
};

}  // namespace trireme::simulate
