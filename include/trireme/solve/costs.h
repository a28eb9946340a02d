// Memory and time costs that the recurrences of the table solvers read: sizes of a chain in slots
// and the memory thresholds of runs of layers, in one place so that tables, rebuilding and test
// oracles cannot differ.
//
// A slot is `unit` bytes. Kept items are rounded up one by one, transient needs as a sum: m slots
// always stand for at least m * unit bytes, so a program that fits in slots fits in bytes. With a
// unit of one byte everything is exact.
//
// Letters in comments: x[i] output, a[i] tape, tf, tt, tb the transients of untaped forward, taped
// forward and backward, f[i] and b[i] the times.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/chain/layer_range.h"
#include "trireme/core/units.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace trireme::solve {

/// A number of slots. Memory "m" of the recurrences.
using Slots = std::int64_t;

/// Whether the bytes that early-stop recomputation (a retape) saves are counted, which takes one
/// more recurrence (Recurrence::kRetaped). Otherwise a retape counts with the bytes of a whole
/// tape, which it never exceeds. The time that it saves always counts.
enum class RetapeBytes { kOfWholeTapes, kTheirOwn };

/// Layers first..last of a chain, in slots; layers carry the chain's own numbers.
class Costs {
 public:
  /// Copies what it needs. `unit` is at least one byte.
  Costs(const chain::Chain& chain, int first, int last, Bytes unit,
        RetapeBytes retapes = RetapeBytes::kOfWholeTapes);

  int first() const { return first_; }
  int last() const { return last_; }
  Bytes unit() const { return Bytes(unit_); }
  /// Whether layer t is the chain's last, whose output is the loss.
  bool is_loss(int t) const { return t == chain_end_; }
  bool counts_retapes() const { return !retaped_.empty(); }

  Slots output(int i) const { return output_[at(i)]; }  ///< x[i], first-1 <= i <= last
  Slots tape(int i) const { return taped(i).tape; }     ///< a[i]
  /// Sum of a[s..t], item by item.
  Slots tapes(int s, int t) const { return tapes_[at(t)] - tapes_[at(s - 1)]; }
  Bytes input_bytes(int i) const { return Bytes(input_bytes_[at(i - 1)]); }  ///< size of x[i-1]

  /// Slots needed to make and use a tape; a retape has its own a, tt and tb.
  struct Taped {
    Slots tape = 0;               ///< a[i]
    Slots waiting = 0;            ///< a[i] + x[i]: what a backward that waits for its input holds
    Slots taping = 0;             ///< a[i] + tt[i]: a taped forward whose input is held outside
    Slots taping_with_input = 0;  ///< x[i-1] + a[i] + tt[i]: the same with its input inside
    Slots backward = 0;           ///< x[i] + a[i] + tb[i]: a backward whose input is held outside
  };
  const Taped& taped(int i) const { return taped_[at(i)]; }
  /// Only where the costs count retapes.
  const Taped& retaped(int i) const { return retaped_[at(i)]; }
  Slots waiting(int i) const { return taped(i).waiting; }
  Slots taping(int i) const { return taped(i).taping; }
  Slots taping_with_input(int i) const { return taped(i).taping_with_input; }
  Slots backward(int i) const { return taped(i).backward; }
  /// Most that untaped forwards of s..j need when each drops its input, x[s-1] held outside: x[s] +
  /// tf[s], then x[k-1] + x[k] + tf[k]. 0 for an empty run.
  Slots run(int s, int j) const {
    return j < s ? 0 : run_[row(s) + static_cast<std::size_t>(j - s)];
  }

  /// Sum of f[s..j] in seconds; 0 for an empty run.
  double forward(int s, int j) const { return j < s ? 0.0 : forward_[at(j)] - forward_[at(s - 1)]; }
  /// Sum of f[s..j] less what a retape of j saves: the time that running s..j and keeping x[j]
  /// alone adds to the time without recomputation.
  double redone(int s, int j) const { return forward(s, j) - saved_[at(j)]; }
  /// Seconds that a retape of j saves against a forward.
  double saved(int j) const { return saved_[at(j)]; }
  /// Sum of f + b over s..t: the time of a sub-chain without recomputation.
  Seconds work(int s, int t) const;

  /// Whole slots in `bytes`; negative for negative bytes.
  Slots slots_in(Bytes bytes) const;
  /// Whole slots that a budget leaves next to x[first-1]; negative if not even x[first-1] fits.
  Slots available(Bytes budget) const { return slots_in(budget - input_bytes(first_)); }

 private:
  std::size_t at(int i) const { return static_cast<std::size_t>(i - first_ + 1); }
  std::size_t row(int s) const { return row_[at(s)]; }
  Slots rounded_up(std::int64_t bytes) const { return (bytes + unit_ - 1) / unit_; }
  Taped taped_by(const chain::Chain& chain, int i, const chain::Retape& tape) const;
  void fill_runs(const chain::Chain& chain);

  int first_, last_, chain_end_;
  std::int64_t unit_;
  std::vector<Slots> output_, run_, tapes_;
  std::vector<Taped> taped_, retaped_;
  std::vector<std::int64_t> input_bytes_;
  std::vector<std::size_t> row_;
  std::vector<double> forward_, work_;  // prefix sums
  std::vector<double> saved_;
};

/// Whether the input of a layer must be kept as long as its tape.
enum class Freedom {
  kInputStays,     ///< rotor: memory-persistent schedules
  kInputMayLeave,  ///< rotor_free: it may be recomputed right before the backward
};

/// The recurrences. Each gives a least time over programs, as a function of m.
enum class Recurrence {
  /// C(s,t,m): forward and backward of s..t; x[s-1] outside m, the gradient of x[t] inside m.
  /// Nothing reads x[t], so the tape of t is made by a retape.
  kWhole,
  /// G_t(s,m): the tape of t and the gradient of x[t] are held, inside m; s..t-1 run until x[t-1]
  /// exists, then the backwards of t..s. Without the time b[t].
  kResumed,
  /// The same where a retape made the tape of t; only where the costs count retapes.
  kRetaped,
  /// g(s,m): the first forward of s..t, and the backward; no gradient is held until x[t] was passed
  /// on.
  kFirst,
};

/// The first decision on a sub-chain s..t: run s..at and keep only one output or tape of it, go on
/// with at+1..t (the right side), and come back to s..at (the left side).
struct Split {
  enum class Keeps {
    kOutput,  ///< x[at] is kept, s..at follows as a kWhole
    kTape,    ///< the tape of at is kept, the rest follows as a kResumed or kRetaped
  };
  Keeps keeps{};
  Recurrence left{};  ///< the recurrence of s..at when it is recomputed
  int at = 0;
  Slots holds = 0;  ///< slots that the right side has less
  Slots needs = 0;  ///< least m
  double runs = 0;  ///< seconds that this adds to the time without recomputation
};

/// Slots that are held while the forwards of a sub-chain run, whatever is decided.
Slots load(const Costs& costs, Recurrence which, int t);
Split keep_output(const Costs& costs, Recurrence which, chain::LayerRange layers, int at);
Split keep_tape(const Costs& costs, Recurrence which, chain::LayerRange layers, int at);

/// Calls `visit(split)` for every decision on these layers: outputs, then tapes, both in ascending
/// order, then for kFirst the output that is passed on. A kResumed or kRetaped of one layer has
/// none: it is its backward alone.
template <class Visit>
void each_split(const Costs& costs, Freedom freedom, Recurrence which, chain::LayerRange layers,
                Visit&& visit) {
  const int s = layers.first, t = layers.last;
  for (int j = s; j < t; ++j) visit(keep_output(costs, which, layers, j));
  const int last_tape = which == Recurrence::kResumed || which == Recurrence::kRetaped ? t - 1 : t;
  const int most = freedom == Freedom::kInputStays ? s : last_tape;
  for (int j = s; j <= most && j <= last_tape; ++j) visit(keep_tape(costs, which, layers, j));
  if (which == Recurrence::kFirst) visit(keep_output(costs, which, layers, t));
}

}  // namespace trireme::solve
