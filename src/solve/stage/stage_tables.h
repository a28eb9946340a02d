// The first pass g of tables.h for all stages of a chain at once, and the best split of a stage's
// memory between what other micro-batches keep and what this one works with.
//
// With w micro-batches in flight and A slots next to w times x[first-1], a cap of k slots on what
// is kept leaves m = A - (w-1) k to work with. What must stay free of m at the pause, slack = m - k
// = A - w k, stays the same along the recurrence, so that one family of columns per slack serves
// all stages, budgets and numbers of micro-batches in flight:
//
//     stage(A, w) = least over slack of g_slack(slack + k),  k = floor((A - slack) / w)
//
// A family is only ever asked for m of slack .. slack + (top - slack) / w, which is little where
// much is in flight. Two families bound all others from below, one on each side: g_0 at the same m
// (it never falls as k grows) and g with all memory to work with at the same k (it never grows with
// k). So the search begins where they cross and continues to either side while a better one is
// possible.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tables/equal_layers.h"
#include "tables/relax.h"
#include "tables/slot_arrays.h"

#include "trireme/chain/layer_range.h"
#include "trireme/program/action.h"
#include "trireme/solve/tables.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <unordered_map>
#include <vector>

namespace trireme::solve {

class StageTables {
 public:
  struct Options {
    Tables::Options tables;
    int least_in_flight = 1;  ///< least number in flight of questions with several
    /// Distance of the families where it is not 1. At distance d the result is at least as good as
    /// the best with d slots less memory.
    int slack_step = 1;
  };
  StageTables(const chain::Chain& chain, chain::LayerRange layers, const Options& options);
  ~StageTables();

  /// A choice g_slack(first, m), valid for the same tables.
  struct Choice {
    double extra = std::numeric_limits<double>::infinity();
    Slots slack = 0, m = 0;
  };
  /// The best over slack (1: slack 0 alone). Columns are made when first needed: a stage of n
  /// layers takes O(n^2) steps once per last layer and slack, less where stages are equal.
  Choice best(chain::LayerRange layers, int in_flight, Slots available);
  /// The program of a finite choice.
  program::StageProgram rebuilt(chain::LayerRange layers, const Choice& choice);

  /// Slots next to `in_flight` times x[first-1]; negative if not even these fit.
  Slots available(int first, int in_flight, Bytes memory) const;
  const Costs& costs() const { return tables_.costs(); }
  int top() const { return tables_.top(); }
  /// Bytes of memory that all tables take.
  std::size_t size() const;

 private:
  /// Columns of stages with one last layer, in ascending order of their first layers; filled from
  /// the last one down.
  class Row {
   public:
    int count() const { return count_; }
    /// Column of the k-th layer from the end, the next ones follow.
    const Column* from_end(int k) const { return columns_.data() + columns_.size() - 1 - index(k); }
    void push(const Column& column);

   private:
    static std::size_t index(int k) { return static_cast<std::size_t>(k); }
    std::vector<Column> columns_;
    int count_ = 0;
  };
  struct Family {
    int slack = 0;
    int reach = 0;       ///< largest m that is read
    bool roomy = false;  ///< with all memory to work with
    std::vector<Row> rows;
    std::unordered_map<std::uint64_t, Column> shared;  ///< one per class of equal stages
  };
  class Reader;

  const Column& column(Family& family, chain::LayerRange layers);
  Column made(const Family& family, int s, int t);
  void add_splits(Draft& draft, const Family& family, int s, int t);
  void add_last(Draft& draft, const Family& family, int s, int t);
  Family& family(Slots slack);
  Family new_family(int slack, int reach, bool roomy) const;
  std::uint64_t class_of(int s, int t) const;
  int flat_from(const Family& family, int s, int t) const;

  int first_, last_;
  Options options_;
  Tables tables_;
  EqualLayers equal_;
  bool share_;
  SlotArrays arrays_;
  std::vector<Column> free_;                   // one per layer
  std::vector<std::vector<Slots>> all_taped_;  // by last layer, then first: m to work with
  Arena arena_;
  AlignedFloats memory_;
  Family alone_, roomy_;  // the two bounds
  std::vector<std::unique_ptr<Family>> families_;
};

}  // namespace trireme::solve
