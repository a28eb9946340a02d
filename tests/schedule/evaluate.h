// Shapes of named schedules, and when an order of passes ends: the longest way through it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/text.h"
#include "trireme/schedule/named.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trireme::schedule {

struct Shape {
  int ranks, per_rank, micro_batches;
};

inline std::string to_text(Shape shape) {
  return concat(shape.ranks, " ranks, ", shape.per_rank, " chunks on each, ", shape.micro_batches,
                " micro-batches");
}

/// All that a schedule has, up to these and four chunks on a rank.
inline std::vector<Shape> shapes_of(const NamedSchedule& schedule, int most_ranks,
                                    int most_micro_batches) {
  const int fewest = schedule.per_rank == 0 ? 2 : schedule.per_rank;
  const int most = schedule.per_rank == 0 ? 4 : schedule.per_rank;
  std::vector<Shape> shapes;
  for (int p = 1; p <= most_ranks; ++p)
    for (int v = fewest; v <= most; ++v)
      for (int m = schedule.name == "dualpipe-v" ? 2 * p : 1; m <= most_micro_batches; ++m)
        shapes.push_back({p, v, m});
  return shapes;
}

/// Runs the passes of all ranks, with F, I and W of a chunk in 1 each and messages in no time.
class Evaluation {
 public:
  Evaluation(const Order& order, const Placement& placement)
      : order_(order),
        forwards_(placement.size()),
        backwards_(placement.size()),
        next_(order.size()),
        free_(order.size()) {
    for (const std::vector<Pass>& passes : order) numbers_.push_back(micro_batches_of(passes));
  }

  /// When the last pass ends. Nothing if passes wait in a circle.
  std::optional<int> end() {
    std::size_t left = 0;
    for (const std::vector<Pass>& passes : order_) left += passes.size();
    for (bool moves = true; moves;) {
      moves = false;
      for (std::size_t rank = 0; rank < order_.size(); ++rank)
        for (; run(rank); --left) moves = true;
    }
    if (left > 0) return std::nullopt;
    return *std::max_element(free_.begin(), free_.end());
  }

 private:
  using Ends = std::vector<int>;  // by micro-batch, which a chunk runs in order

  static std::optional<int> ended(const Ends& ends, int micro_batch) {
    if (std::cmp_greater_equal(micro_batch, ends.size())) return std::nullopt;
    return ends[static_cast<std::size_t>(micro_batch)];
  }

  /// When all that a pass waits for has ended, its rank left aside.
  std::optional<int> begin_of(Pass pass, int micro_batch) const {
    const auto chunk = static_cast<std::size_t>(pass.chunk);
    if (pass.kind == Pass::Kind::kForward)
      return chunk == 0 ? 0 : ended(forwards_[chunk - 1], micro_batch);
    if (pass.kind == Pass::Kind::kBackwardWeights) return ended(backwards_[chunk], micro_batch);
    return chunk + 1 == forwards_.size() ? ended(forwards_[chunk], micro_batch)
                                         : ended(backwards_[chunk + 1], micro_batch);
  }

  /// Runs the rank's next pass if it has one that may run.
  bool run(std::size_t rank) {
    if (next_[rank] == order_[rank].size()) return false;
    const Pass pass = order_[rank][next_[rank]];
    const auto begin = begin_of(pass, numbers_[rank][next_[rank]]);
    if (!begin) return false;
    free_[rank] = std::max(free_[rank], *begin) + (pass.kind == Pass::Kind::kBackward ? 2 : 1);
    const auto chunk = static_cast<std::size_t>(pass.chunk);
    if (pass.kind == Pass::Kind::kForward) forwards_[chunk].push_back(free_[rank]);
    if (is_backward(pass.kind)) backwards_[chunk].push_back(free_[rank]);
    ++next_[rank];
    return true;
  }

  const Order& order_;
  std::vector<std::vector<int>> numbers_;
  std::vector<Ends> forwards_, backwards_;  // by chunk
  std::vector<std::size_t> next_;           // by rank
  std::vector<int> free_;
};

}  // namespace trireme::schedule
