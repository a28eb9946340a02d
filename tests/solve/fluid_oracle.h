// The best plan of the fluid relaxation by trying everything: every memory-persistent schedule, at
// its first level and in every run that is recomputed, times every choice of what is offloaded. The
// formulas are those of Beaumont et al. 2021 (POFO), sections 4.2 to 4.4, with one rate per
// direction.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace trireme::solve {

class FluidOracle {
 public:
  FluidOracle(const chain::Chain& chain, std::int64_t memory, double out, double in)
      : chain_(chain), memory_(static_cast<double>(memory)), out_(out), in_(in) {}

  /// Seconds; infinity if nothing fits.
  double offload_only() {
    recompute_ = false;
    return best_from_start();
  }
  double offload_and_recompute() {
    recompute_ = true;
    return best_from_start();
  }

 private:
  struct Operation {
    double needs, duration;
  };
  using Sequence = std::vector<Operation>;
  // The paper's state before F_i and after B_i, and the time spent so far.
  struct State {
    int i = 1;
    bool bar = false;
    double stays = 0, to_leave = 0, to_return = 0, time = 0;
  };

  double x(int i) const { return static_cast<double>(chain_.output(i).count()); }
  double xbar(int i) const { return static_cast<double>(chain_.layer(i).tape.count()); }
  double f(int i) const { return chain_.layer(i).forward.count(); }
  double b(int i) const { return chain_.layer(i).backward.count(); }
  double untaped(int i, int k) const {
    return x(k) + static_cast<double>(chain_.layer(k).forward_transient.count()) +
           (k > i ? x(k - 1) : 0);
  }
  double taped(int i) const {
    return xbar(i) + static_cast<double>(chain_.layer(i).tape_transient.count());
  }
  double backward(int i) const {
    return xbar(i) + x(i) + static_cast<double>(chain_.layer(i).backward_transient.count());
  }

  double best_from_start() {
    best_ = std::numeric_limits<double>::infinity();
    explore({});
    return best_;
  }

  void explore(const State& at) {
    if (at.i > chain_.length()) {
      best_ = std::min(best_, at.time + at.to_leave / out_ + at.to_return / in_);
      return;
    }
    const double item = at.bar ? xbar(at.i - 1) : x(at.i - 1);
    for (const bool leaves : {false, true}) {
      part(at, item, leaves, at.i, true, {{taped(at.i), f(at.i)}}, {{backward(at.i), b(at.i)}});
      if (!recompute_) continue;
      Sequence forwards;
      for (int j = at.i; j <= chain_.length(); ++j) {
        forwards.push_back({untaped(at.i, j), f(j)});
        for (const Sequence& again : sequences(at.i, j)) {
          part(at, item, leaves, j, false, forwards, again);
        }
      }
    }
  }

  // Layers at.i..j: the formulas of section 4.4, F_all being a run of one layer.
  void part(const State& at, double item, bool leaves, int j, bool bar, const Sequence& forwards,
            const Sequence& backwards) {
    const double available = memory_ - at.stays - item;
    double waits_out = 0, forward = 0;
    for (const Operation& operation : forwards) {
      if (operation.needs > available) return;
      waits_out = std::max(waits_out, operation.needs - out_ * forward - (available - at.to_leave));
      forward += operation.duration;
    }
    double waits_in = 0, redone = 0;
    for (auto operation = backwards.rbegin(); operation != backwards.rend(); ++operation) {
      if (operation->needs > available) return;
      waits_in = std::max(waits_in, operation->needs - in_ * redone - (available - at.to_return));
      redone += operation->duration;
    }
    State next{.i = j + 1, .bar = bar};
    const double moved = leaves ? item : 0;
    next.stays = at.stays + item - moved;
    next.to_leave = std::max(0.0, at.to_leave + moved - out_ * forward - waits_out);
    next.to_return = std::max(0.0, at.to_return - in_ * redone - waits_in) + moved;
    next.time = at.time + forward + redone + waits_out / out_ + waits_in / in_;
    explore(next);
  }

  // Every memory-persistent way to run s..t forward and backward from x[s-1], with what each
  // operation needs next to it.
  std::vector<Sequence> sequences(int s, int t) const {
    std::vector<Sequence> all;
    if (s == t) return {{{x(t) + taped(s), f(s)}, {backward(s), b(s)}}};
    for (const Sequence& right : sequences(s + 1, t)) {
      Sequence kept{{x(t) + taped(s), f(s)}};
      append(kept, right, xbar(s));
      kept.push_back({backward(s), b(s)});
      all.push_back(std::move(kept));
    }
    Sequence forwards;
    for (int j = s; j < t; ++j) {
      forwards.push_back({x(t) + untaped(s, j), f(j)});
      for (const Sequence& right : sequences(j + 1, t)) {
        for (const Sequence& left : sequences(s, j)) {
          Sequence again = forwards;
          append(again, right, x(j));
          append(again, left, 0);
          all.push_back(std::move(again));
        }
      }
    }
    return all;
  }

  static void append(Sequence& to, const Sequence& from, double held) {
    for (const Operation& operation : from)
      to.push_back({operation.needs + held, operation.duration});
  }

  const chain::Chain& chain_;
  double memory_, out_, in_;
  bool recompute_ = true;
  double best_ = 0;
};

}  // namespace trireme::solve
