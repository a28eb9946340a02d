// Marks of held values, one row per micro-batch in flight.
// SPDX-License-Identifier: Apache-2.0
#include "cells.h"

namespace trireme::simulate {

Cells::Cells(int first, int last)
    : first_(first), width_(static_cast<std::size_t>(last - first + 1)) {}

void Cells::open(int micro_batch) {
  micro_batch_ = static_cast<std::size_t>(micro_batch);
  if (micro_batch_ >= row_of_.size()) row_of_.resize(micro_batch_ + 1, -1);
  std::int32_t& row = row_of_[micro_batch_];
  if (row < 0 && !free_.empty()) {
    row = free_.back();
    free_.pop_back();
  } else if (row < 0) {
    row = static_cast<std::int32_t>(in_row_.size());
    in_row_.push_back(0);
    cells_.resize(cells_.size() + width_, 0);
  }
  row_ = static_cast<std::size_t>(row);
}

void Cells::close() {
  if (in_row_[row_] != 0) return;
  free_.push_back(row_of_[micro_batch_]);
  row_of_[micro_batch_] = -1;
}

void Cells::set(int layer, Mark mark) {
  if (has(layer, mark)) return;
  cells_[place(layer)] =
      static_cast<std::uint8_t>(cells_[place(layer)] | static_cast<std::uint8_t>(mark));
  ++in_row_[row_];
  ++count_;
}

void Cells::clear(int layer, Mark mark) {
  if (!has(layer, mark)) return;
  cells_[place(layer)] =
      static_cast<std::uint8_t>(cells_[place(layer)] & ~static_cast<std::uint8_t>(mark));
  --in_row_[row_];
  --count_;
}

}  // namespace trireme::simulate
