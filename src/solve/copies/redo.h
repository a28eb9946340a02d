// Ways to recompute a run of layers from its kept input, each with its memory needs over time: the
// choices of a plan that prefetches while layers are recomputed. A leaner way takes longer but
// leaves room for prefetched tensors. The ways of a sub-chain are those of a cost table, one for
// every number of slots from which on it takes less time.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tables/equal_layers.h"

#include "trireme/chain/chain.h"
#include "trireme/program/action.h"
#include "trireme/solve/solve.h"
#include "trireme/solve/tables.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace trireme::solve {

/// `bytes` are needed when `after` seconds remain; all later actions need less. Bytes as in the
/// recurrences: the input of the first layer is not counted.
struct Need {
  double after = 0;
  std::int64_t bytes = 0;
};

/// One way; its needs are in the table.
struct Redo {
  Slots m = 0;            ///< slots that it was planned for
  double duration = 0;    ///< seconds, backwards included
  std::int64_t most = 0;  ///< bytes that it needs at any time
  std::uint32_t first_need = 0, needs = 0;
};

/// Layers s..t as the recurrences see them: C(s,t,.) or G_t(s,.).
struct SubChain {
  Recurrence recurrence{};
  int s = 0, t = 0;
};

class RedoTable {
 public:
  /// The cost tables that the ways come from.
  struct Source {
    std::shared_ptr<const CostReader> parts;       ///< has kWhole and kResumed
    std::shared_ptr<const CostReader> first_pass;  ///< has kFirst of the last layer
    Slots top = 0;                                 ///< largest m of both
    std::size_t most_needs = 0;                    ///< kept per way, the others merged; 0: no limit
    /// Values of m from which on a sub-chain takes less time, ascending, the least feasible one
    /// first.
    std::function<std::vector<Slots>(const SubChain&)> breakpoints;
  };
  RedoTable(const chain::Chain& chain, Source source);

  /// The indices of a sub-chain's ways, fastest first.
  struct Ways {
    std::size_t first = 0, count = 0;
  };
  Ways ways(const SubChain& chain);
  /// One of them; made when first asked for. Lives as long as the table.
  const Redo& way(const SubChain& chain, std::size_t number) {
    Redo& redo = ways_[number];
    if (redo.needs == 0) make(chain, redo);
    return redo;
  }
  /// From its last action back to its first. Valid until another way is made.
  std::span<const Need> needs(const Redo& way) const {
    return {needs_.data() + way.first_need, way.needs};
  }
  std::vector<program::Action> actions(const SubChain& chain, const Redo& way) const;

  /// Seconds of forwards that layers i..last recompute when all that is ever held next to the input
  /// of i fits in `bytes`: a lower bound with tables in bytes, approximate with tables in slots.
  double least_extra(int i, double bytes) const;

  Freedom freedom() const { return source_.parts->freedom(); }

 private:
  const Redo& in_force(const SubChain& chain, Slots m);
  void make(const SubChain& chain, Redo& redo);
  double add_parts(const SubChain& chain, const Split& split, Slots m, std::vector<Need>& needs);
  double add_forwards(const SubChain& chain, const Split& split, double after,
                      std::vector<Need>& needs) const;
  Split best(const SubChain& chain, Slots m) const;

  const chain::Chain& chain_;
  Source source_;
  EqualLayers equal_;
  std::vector<std::optional<Ways>> groups_;  ///< by sub-chain; equal ones share one
  std::deque<Redo> ways_;
  std::vector<Need> needs_;
};

/// Ways from exact tables where those are small, else with sizes rounded up to a share of the
/// budget: 1 / slots of it, 1 / 100 at least, since they serve to plan more than their own time.
RedoTable make_redo_table(const Problem& problem, Freedom freedom);

/// Bytes of an untaped forward of k in a run that began at s, x[s-1] not counted.
std::int64_t run_bytes(const chain::Chain& chain, int s, int k);
/// a[i] + tt[i] and x[i] + a[i] + tb[i].
std::int64_t taping_bytes(const chain::Chain& chain, int i);
/// A first taped forward of i whose input is held by itself and dropped afterwards: x[i-1] + a[i] +
/// tt[i], or with the gradient of the loss, which comes before the input is dropped.
std::int64_t taping_and_input_bytes(const chain::Chain& chain, int i);
std::int64_t backward_bytes(const chain::Chain& chain, int i);
/// By layer: what it and all later ones need when every tape is kept, x[i-1] not counted.
std::vector<std::int64_t> keep_all_bytes(const Problem& problem);

}  // namespace trireme::solve
