// Cost tables: the least time of every sub-chain of a chain at every number of slots, made once and
// shared by all budgets, stages and periods of one planning run; and the programs rebuilt from
// them.
//
//     C(s,t,m) = 0 if s > t, else the least over s <= j <= t of
//       f[s..j]   + C(j+1, t, m - x[j]) + C(s, j, m)          keep x[j]      (j < t)
//       f[s..j] + b[j] + C(j+1, t, m - a[j]) + G_j(s, m)      keep tape j    (rotor: j = s only)
//     G_t(s,m) = 0 if s = t, else the least over s <= j < t of
//       f[s..j]   + G_t(j+1, m - x[j]) + C(s, j, m)
//       f[s..j] + b[j] + G_t(j+1, m - a[j]) + G_j(s, m)       (j = s: the input stays outside)
//     each where m is at least what costs.h says that the step needs.
//
// The first line with j = s of the second is the recurrence of Beaumont et al. 2019 (RR-9302); G
// lets the input of a taped layer be dropped and recomputed. A table holds what a sub-chain costs
// beyond sum(f + b), i.e. recomputed forwards, as float: exactly 0 where everything is kept, and
// else a sum of at most 2 L rounded additions of non-negative numbers, so its relative error is
// below 2 L / 2^24 of the recomputed time (4e-5 for 339 layers, in practice far less). Programs are
// rebuilt from the tables without stored choices; their times are computed afresh in double by
// replay.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/chain/layer_range.h"
#include "trireme/core/units.h"
#include "trireme/program/action.h"
#include "trireme/solve/column.h"
#include "trireme/solve/costs.h"

#include <cstddef>
#include <memory>
#include <vector>

namespace trireme::solve {

/// Most layers of one table: its directory alone grows with their square.
inline constexpr int kMaxTableLayers = 2500;
/// Throws InputError for more layers.
void require_table_size(int first, int last);

/// Interface to the recurrences' values (slot tables, exact tables, least budgets), from which
/// programs are rebuilt.
class CostReader {
 public:
  CostReader(std::shared_ptr<const Costs> costs, Freedom freedom)
      : costs_(std::move(costs)), freedom_(freedom) {}
  virtual ~CostReader() = default;

  /// Seconds of recomputed forwards, infinity if m does not suffice (negative m included). For
  /// kFirst, t is the reader's last layer.
  virtual double extra(Recurrence which, int s, int t, Slots m) const = 0;
  /// For kFirst: slots of m that must stay free for other micro-batches while this one pauses.
  virtual Slots slack() const { return 0; }

  const Costs& costs() const { return *costs_; }
  const std::shared_ptr<const Costs>& shared_costs() const { return costs_; }
  Freedom freedom() const { return freedom_; }

 protected:
  CostReader(const CostReader&) = default;
  CostReader& operator=(const CostReader&) = delete;

 private:
  std::shared_ptr<const Costs> costs_;
  Freedom freedom_;
};

/// C and G for all sub-chains of first..last and all m of 0..top. Immutable once built; reading is
/// safe from any thread.
class Tables final : public CostReader {
 public:
  struct Options {
    Freedom freedom = Freedom::kInputMayLeave;
    Bytes unit{1};
    int top = 0;      ///< largest m
    int threads = 1;  ///< the values do not depend on it
    int longest = 0;  ///< longest sub-chain that is read; 0: all may be
  };
  /// O(L^3 top) for L different layers (L longest^2 top); sub-chains of equal layers are solved
  /// once. Throws InputError for more than kMaxTableLayers layers.
  Tables(const chain::Chain& chain, int first, int last, const Options& options);
  ~Tables() override;
  Tables(Tables&&) noexcept;

  double extra(Recurrence which, int s, int t, Slots m) const override;
  /// C (kWhole) or G (kResumed) of s..t as a whole, for loops over m; lives as long as the table.
  const Column& column(Recurrence which, int s, int t) const;
  int top() const;
  /// Bytes of memory that the table holds.
  std::size_t size() const;

  struct State;  ///< private to the module
  const State& state() const { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

/// g(s,m) for all s up to `last`: sub-chains as a pipeline stage runs them: forward, pause,
/// backward; x[last] is passed on at the pause and its gradient comes after it. At most m - slack
/// is kept at the pause (neither counts x[s-1]). Slack 0 is a device alone. O((last - first)^2
/// top); `tables` must outlive it.
class FirstPass final : public CostReader {
 public:
  FirstPass(const Tables& tables, int last, Slots slack = 0);
  ~FirstPass() override;

  double extra(Recurrence which, int s, int t, Slots m) const override;
  Slots slack() const override { return slack_; }
  int last() const { return last_; }
  int top() const { return tables_.top(); }

 private:
  struct Columns;
  const Tables& tables_;
  int last_;
  Slots slack_;
  std::unique_ptr<Columns> columns_;
};

/// The actions for layers s..t that take C(s,t,m), from x[s-1] and the gradient of x[t] held. m
/// must be feasible.
std::vector<program::Action> rebuild(const CostReader& reader, chain::LayerRange layers, Slots m);
/// The actions for layers s..t that take G_t(s,m), from x[s-1], the tape of t and the gradient of
/// x[t] held.
std::vector<program::Action> rebuild_resumed(const CostReader& reader, chain::LayerRange layers,
                                             Slots m);
/// The program that takes g(first,m), from x[first-1] alone to the gradient of x[first-1].
program::StageProgram rebuild_stage(const CostReader& reader, chain::LayerRange layers, Slots m);

}  // namespace trireme::solve
