// Choice of the stage tables for a question: by the stage's length and the number in flight.
//
// Long stages are seldom needed and their tables cost most, so each band of lengths has tables of
// its own. With w micro-batches in flight one of them may keep a w-th of the memory, rounded up
// item by item: there slots are smaller where that is cheap.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stage_tables.h"

#include "trireme/chain/chain.h"
#include "trireme/chain/layer_range.h"
#include "trireme/core/units.h"
#include "trireme/solve/costs.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

namespace trireme::solve {

class StageLevels {
 public:
  /// Most slots of a table, most bytes for exact sizes, and slots that stand in for exact sizes.
  static constexpr int kMostSlots = 60'000, kMostExact = 20'000, kManySlots = 2000;

  /// Slots 0: exact where `memory` is at most kMostExact.
  StageLevels(const chain::Chain& chain, Bytes memory, int slots, Freedom freedom);

  /// Tables for such a stage, made when first asked for.
  StageTables& of(int layers, int in_flight);
  /// Tables for one stage alone with at most `memory`; slots as small as is cheap.
  std::unique_ptr<StageTables> alone(chain::LayerRange layers, int in_flight, Bytes memory) const;
  /// The same if their slots are smaller than those of of(), else null; good for up to twice
  /// `memory`, so that later questions can use them. Valid until the next call.
  StageTables* finer(chain::LayerRange layers, int in_flight, Bytes memory);
  /// Whether every slot is a byte and tables count exactly (no retapes).
  bool exact() const { return exact_ && !has_retapes_; }
  std::size_t size() const;

 private:
  Bytes slot_alone(int layers, int in_flight, Bytes memory) const;
  /// Frees finer tables, least recently used first, until they are few.
  void forget_finer();
  int band_of(int layers) const;
  int level_of(int band, int in_flight) const;
  Bytes slot(int level) const { return Bytes(std::max<std::int64_t>(1, unit_.count() >> level)); }
  int top(Bytes slot, Bytes memory) const;
  double sub_chains(int band) const;
  double additions(int band, int level) const;
  int slack_step(int band, int level, int least_in_flight) const;

  const chain::Chain& chain_;
  Bytes memory_;
  int slots_;
  Freedom freedom_;
  bool exact_ = false, has_retapes_ = false;
  Bytes unit_;        // slot of level 0; level k has slots of unit / 2^k
  double different_;  // sub-chains
  std::map<std::pair<int, int>, std::unique_ptr<StageTables>> tables_;  // by band and level
  struct Finer {
    std::unique_ptr<StageTables> tables;
    int used = 0;  ///< time of the last use
  };
  /// By layers, number in flight, and halvings of memory_.
  std::map<std::tuple<chain::LayerRange, int, int>, Finer> finer_;
  int uses_ = 0;
};

}  // namespace trireme::solve
