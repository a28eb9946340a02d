// Fast pre-check which labels of the copy search may dominate another one, by a few numbers of
// each. Nearly all of the search's time goes into such comparisons, and nearly all of them fail.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace trireme::solve {

/// Summary of a label.
struct Sketch {
  static constexpr std::size_t kLevels = 4;
  using Levels = std::array<double, kLevels>;

  double time = 0;   ///< seconds so far
  double kept = 0;   ///< bytes that stay
  double moved = 0;  ///< bytes in the offload tier; 0 where it has room for all
  /// By lane: seconds until at most a level's bytes are leaving, at levels that all sketches share.
  /// Negative: that long ago.
  Levels out{}, in{};
};

/// Upper limits of labels that are no worse: a sketch, with the extra bytes that they may have, and
/// extra seconds.
struct SketchLimit {
  Sketch sketch;
  double more = 0;    ///< seconds that they may be later
  double shared = 0;  ///< part of the seconds that they are earlier that does not count
};

/// Labels, numbered as they are added.
class LabelScreen {
 public:
  void clear();
  void add(const Sketch& sketch);
  /// Whether `is_no_worse(k)` is true for a label k. It is not called for labels that their
  /// sketches rule out: with more bytes, or later once they have waited for their lanes.
  template <class IsNoWorse>
  bool any(const SketchLimit& limit, IsNoWorse is_no_worse) const {
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      for (std::uint32_t open = within(blocks_[b], limit); open != 0; open &= open - 1)
        if (is_no_worse(b * kBlock + static_cast<std::size_t>(std::countr_zero(open)))) return true;
    }
    return false;
  }

 private:
  static constexpr std::size_t kBlock = 16;
  using Column = std::array<double, kBlock>;
  struct alignas(64) Block {
    Column time, kept, moved;
    std::array<Column, Sketch::kLevels> out, in;
  };
  /// Bit k: label k of the block is within the limit.
  static std::uint32_t within(const Block& block, const SketchLimit& limit);

  std::size_t size_ = 0;
  std::vector<Block> blocks_;
};

}  // namespace trireme::solve
