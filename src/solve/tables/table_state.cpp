// Lookup of columns in a slot table.
//
// SPDX-License-Identifier: Apache-2.0
#include "table_state.h"

namespace trireme::solve {

Directory::Directory(chain::LayerRange layers) : first_(layers.first), layers_(layers.size()) {
  const std::size_t pairs = index(layers_) * index(layers_ + 1) / 2;
  by_start_.resize(pairs);
  by_end_.resize(pairs);
}

std::size_t Directory::start(int s) const {
  const std::size_t row = index(s - first_);
  return row * index(layers_) - row * (row - 1) / 2;
}

void Directory::set(int s, int t, const Column& column) {
  by_start_[start(s) + index(t - s)] = column;
  by_end_[end(t) + index(s - first_)] = column;
}

Tables::State::State(chain::LayerRange layers, int most, bool with_resumed)
    : top(most), whole(layers), first(layers.first) {
  if (with_resumed) resumed.emplace(layers);
  own.resize(static_cast<std::size_t>(layers.size()));
}

const Column& Tables::State::column(Recurrence which, int s, int t) const {
  if (which == Recurrence::kWhole) return whole.of(s, t);
  if (s == t) return own[static_cast<std::size_t>(s - first)];
  return resumed->of(s, t);
}

}  // namespace trireme::solve
