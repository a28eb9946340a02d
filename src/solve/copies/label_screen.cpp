// Compares sketches, a block at a time with vector instructions.
//
// SPDX-License-Identifier: Apache-2.0
#include "label_screen.h"

#include "tables/vector_versions.h"

#include <limits>

namespace trireme::solve {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

void LabelScreen::clear() {
  size_ = 0;
  blocks_.clear();
}

void LabelScreen::add(const Sketch& sketch) {
  const std::size_t k = size_++ % kBlock;
  if (k == 0) {
    blocks_.emplace_back();
    blocks_.back().kept.fill(kNever);
  }
  Block& block = blocks_.back();
  block.time[k] = sketch.time;
  block.kept[k] = sketch.kept;
  block.moved[k] = sketch.moved;
  for (std::size_t level = 0; level < Sketch::kLevels; ++level) {
    block.out[level][k] = sketch.out[level];
    block.in[level][k] = sketch.in[level];
  }
}

TRIREME_VECTOR_VERSIONS
std::uint32_t LabelScreen::within(const Block& block, const SketchLimit& limit) {
  const Sketch& most = limit.sketch;
  std::array<std::int64_t, kBlock> is_within;
#pragma GCC unroll 1
  for (std::size_t k = 0; k < kBlock; ++k) {
    double out = 0, in = 0;
#pragma GCC unroll 4
    for (std::size_t level = 0; level < Sketch::kLevels; ++level) {
      const double out_later = block.out[level][k] - most.out[level];
      const double in_later = block.in[level][k] - most.in[level];
      out = out_later > out ? out_later : out;
      in = in_later > in ? in_later : in;
    }
    const double spare = most.time - block.time[k] + limit.more - limit.shared;
    is_within[k] = std::int64_t{out + in <= spare} & std::int64_t{block.kept[k] <= most.kept} &
                   std::int64_t{block.moved[k] <= most.moved};
  }
  std::uint32_t bits = 0;
  for (std::size_t k = 0; k < kBlock; ++k) bits |= static_cast<std::uint32_t>(is_within[k]) << k;
  return bits;
}

}  // namespace trireme::solve
