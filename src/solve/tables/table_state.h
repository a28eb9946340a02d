// Contents of a slot table, and the function that fills it.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "equal_layers.h"
#include "relax.h"
#include "slot_arrays.h"

#include "trireme/chain/layer_range.h"
#include "trireme/solve/tables.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace trireme::solve {

/// Columns of kWhole and kResumed for all s <= t, twice: by first layer and by last layer, so that
/// the columns of either side of consecutive decisions are contiguous.
class Directory {
 public:
  explicit Directory(chain::LayerRange layers);

  const Column& of(int s, int t) const { return by_start_[start(s) + index(t - s)]; }
  /// Columns of (s, s), (s, s+1), ...
  const Column* from(int s) const { return by_start_.data() + start(s); }
  /// Columns of (first, t), (first+1, t), ...
  const Column* until(int t) const { return by_end_.data() + end(t); }
  void set(int s, int t, const Column& column);
  std::size_t size() const { return 2 * by_start_.size() * sizeof(Column); }

 private:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  std::size_t start(int s) const;
  std::size_t end(int t) const { return index(t - first_) * (index(t - first_) + 1) / 2; }

  int first_, layers_;
  std::vector<Column> by_start_, by_end_;
};

struct Tables::State {
  State(chain::LayerRange layers, int most, bool with_resumed);

  int top;
  Directory whole;
  std::optional<Directory> resumed;  ///< absent where inputs stay: then `own` is all that is needed
  std::vector<Column> own;           ///< G_i(i) of every layer, from `first` on
  std::vector<Arena> arenas;         ///< one per thread

  const Column& column(Recurrence which, int s, int t) const;
  int first;
};

/// Fills an empty state.
void fill_tables(const Costs& costs, Freedom freedom, const EqualLayers& equal,
                 const Tables::Options& options, Tables::State& state);

}  // namespace trireme::solve
