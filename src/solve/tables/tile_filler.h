// Computes slot tables tile by tile.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "equal_layers.h"
#include "relax.h"
#include "slot_arrays.h"
#include "table_state.h"

#include "trireme/chain/layer_range.h"
#include "trireme/solve/costs.h"

#include <array>
#include <cstddef>
#include <vector>

namespace trireme::solve {

/// Sub-chains (s,t) are computed in tiles of 16 x 16. For one group of eight split points a tile
/// reads 16 x 8 columns on either side; at 500 slots that and its drafts stay in a second-level
/// cache of 1 MiB, and every column loaded from beyond it is used sixteen times.
inline constexpr int kTile = 16;
inline constexpr int kGroup = 8;

/// Input that all threads share.
class FillJob : public SlotArrays {
 public:
  /// `equal` null: every sub-chain is computed on its own.
  FillJob(const Costs& costs, Freedom freedom, const EqualLayers* equal, Tables::State& state);

  const Costs& costs() const { return costs_; }
  const EqualLayers* equal() const { return equal_; }
  Tables::State& state() const { return state_; }
  bool resumes() const { return freedom_ == Freedom::kInputMayLeave; }
  int load(Recurrence which, int t) const;

  /// One past the last m that matters: from there on all tapes of s..t can be kept.
  int end(Recurrence which, int s, int t) const {
    return (which == Recurrence::kWhole ? whole_end_ : resumed_end_)[row(s) + index(t - s)];
  }

 private:
  void fill_ends(Recurrence which, std::vector<int>& ends) const;

  const Costs& costs_;
  Freedom freedom_;
  const EqualLayers* equal_;
  Tables::State& state_;
  std::vector<int> whole_end_, resumed_end_;
};

/// One thread's work: tiles, one after the other, into its own arena.
class TileFiller {
 public:
  TileFiller(const FillJob& job, Arena& arena);
  /// All tiles left of it in its row and below it in its column must be done.
  void fill(int row, int column);

 private:
  struct TileCell {
    bool open = false;  // to be computed in this tile
    Draft whole, resumed;
  };

  void open_drafts();
  bool take_twin(int s, int t);
  void add_offload_splits();
  void close(int s, int t);
  /// The splits of a sub-chain after the layers `at`.
  void add_splits(chain::LayerRange layers, chain::LayerRange at);
  void add_splits(Draft& draft, Recurrence which, chain::LayerRange layers, chain::LayerRange at);
  void add_tape_of(int at, Draft& draft, Recurrence which, chain::LayerRange layers);
  void set(Recurrence which, int s, int t, const Column& column);
  Directory& directory(Recurrence which) const {
    return which == Recurrence::kWhole ? state_.whole : *state_.resumed;
  }
  TileCell& cell(int s, int t) {
    return cells_[static_cast<std::size_t>((s - s0_) * kTile + (t - t0_))];
  }

  const FillJob& job_;
  const Costs& costs_;
  Tables::State& state_;
  Arena& arena_;
  AlignedFloats memory_;
  std::array<TileCell, kTile * kTile> cells_;
  int s0_ = 0, s1_ = 0, t0_ = 0, t1_ = 0;  // the tile: layers s0..s1 and t0..t1
};

}  // namespace trireme::solve
