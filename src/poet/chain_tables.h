// The least that a chain's step costs, part by part, from short parts to long ones.
//
// A part (s, t) makes the backwards of layers t..s+1 where the output x[s] is at hand, its source.
// Letters: x[i] output of layer i, g[i] what its backward leaves. What a part needs counts all that
// exists while it runs, but what the parts around it keep. There is a choice:
//
//   backward: where all that the backward of t reads is at hand or outside; then (s, t-1).
//   run to k: forwards s+1..k, of which only x[k] is kept, in memory or outside; then (k, t) with
//     x[k] for a source, then (s, k) with x[k] where it was kept.
//   run to t, where x[t] is gone: the same without the second part.
//
// What is at hand at the begin of a part:
//   the source: held (it stays in memory), warm (outside, and still in memory now), cold (outside)
//   the target x[t]: absent, present (in memory until the backward of t), outside, or droppable
//     (in memory now: present or absent, whichever is better)
//   g[t+1]: held (in memory until the backward of t), outside, new (just made: one or the other)
//
// The first forwards of all layers are the same without a gradient, with parts (s, L). x[0] costs
// little to get back where it is computed from nothing: it counts as outside then.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "chain_front.h"
#include "links.h"

#include "trireme/graph/problem.h"
#include "trireme/graph/schedule.h"
#include "trireme/poet/solve.h"

#include <cstdint>
#include <limits>
#include <vector>

namespace trireme::poet {

/// What is asked of the tables.
struct ChainQuestion {
  Objective objective = Objective::kEnergy;
  bool may_recompute = true, may_copy = true;
  bool input_is_made_again = true;  ///< x[0] comes back by computing it, else by copies
  double copy_share = 1;  ///< of the time of copies, that counts: with lanes beside compute
  Price price = {};
  Screen screen = {};
  std::int64_t memory = std::numeric_limits<std::int64_t>::max();  ///< bytes
};

class ChainTables {
 public:
  /// Fills all tables: O(layers^3) times what fronts have in labels.
  /// `problem` and `links` must outlive them.
  ChainTables(const graph::Problem& problem, const Links& links, const ChainQuestion& question);

  /// Labels of the whole step; empty if nothing fits.
  const Front& whole() const { return fronts_.back(); }
  /// Computations and copies of a label of whole(), without drops.
  graph::Schedule actions_of(int label) const;

 private:
  enum class Source { kHeld, kWarm, kCold };
  enum class Target { kAbsent, kPresent, kOutside, kDroppable };
  enum class Gradient { kHeld, kOutside, kNew };
  static constexpr int kTargets = 4, kGradients = 3;
  static constexpr int kWays = 3 * kTargets * kGradients;  ///< in which a part may begin
  struct Part {
    int first, last;
    Source source;
    Target target;
    Gradient gradient;
  };
  /// A choice whose rests are fronts, of whose labels every pair is one.
  struct Option {
    Cost cost;
    std::int64_t needs = 0;  ///< bytes, whatever follows
    Choice choice;
    std::int64_t beside = 0;  ///< bytes held while `then` runs that it does not count
  };

  void set_costs();
  void fill_pair(int first, int last);
  void fill(const Part& part);
  void fill_new(Part part);
  void fill_first(int first, Source source);
  void fill_whole();
  void add_backward(const Part& part);
  void add_runs(const Part& part);
  void add_run_to_last(const Part& part);
  void add_splits(Option option, const Part& left, int then_if_held, int then_if_outside);
  void add_last(Option option, Part left, Target target);
  void add(const Option& option);
  void add_cheapest_pairs(const Option& option, const Front& then, const Front& last);
  void add_all_pairs(const Option& option, const Front& then, const Front& last);
  void add_pair(const Option& option, std::int64_t memory, std::size_t then, std::size_t last);
  void finish(int front);

  int front_of(const Part& part) const;
  int front_of_first(int first, Source source) const;
  Part part_of(int front) const;
  /// -1: what there is where nothing follows, one label that costs nothing.
  const Front& front(int index) const {
    return index < 0 ? nothing_ : fronts_[static_cast<std::size_t>(index)];
  }
  const Label& label_of(int index, std::size_t label) const { return front(index)[label]; }
  bool can_be_outside(int output) const;
  bool can_gradient_be_outside(int layer) const;
  Cost access(int output) const;
  std::int64_t bytes(int node) const { return problem_.graph.node(node).bytes.count(); }
  std::int64_t gradient_bytes(int layer) const;
  /// Bytes of forward `at` in a run that began with `first`.
  std::int64_t need_of_forward(int first, int at, bool holds_first) const;
  const Cost& cost_of(const std::vector<Cost>& costs, int node) const {
    return costs[static_cast<std::size_t>(node)];
  }

  class Writing;

  const graph::Problem& problem_;
  const Links& links_;
  ChainQuestion question_;
  int layers_;
  std::vector<Cost> compute_, out_, in_;  ///< by node
  std::vector<Front> fronts_;             ///< of parts, of first parts, of the whole
  Front nothing_ = Front(1);
  Collection collection_;
};

}  // namespace trireme::poet
