// Times of tables in seconds: forwards and backwards, with recomputation; infinity if infeasible.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/solve/tables.h"

namespace trireme::solve {

/// C(s,t,m).
inline Seconds time_of(const Tables& tables, int s, int t, Slots m) {
  const Costs& costs = tables.costs();
  const Seconds saved(s > t ? 0.0 : costs.saved(t));
  return costs.work(s, t) - saved + Seconds(tables.extra(Recurrence::kWhole, s, t, m));
}

/// G_t(s,m), without b[t].
inline Seconds time_resumed(const Tables& tables, int s, int t, Slots m) {
  return tables.costs().work(s, t - 1) + Seconds(tables.extra(Recurrence::kResumed, s, t, m));
}

/// g(s,m).
inline Seconds time_of(const FirstPass& pass, int s, Slots m) {
  return pass.costs().work(s, pass.last()) +
         Seconds(pass.extra(Recurrence::kFirst, s, pass.last(), m));
}

/// Least m with a finite C(s,t,m); top + 1 if there is none.
inline Slots least_of(const Tables& tables, int s, int t) {
  const Column& column = tables.column(Recurrence::kWhole, s, t);
  return column.feasible() ? column.lo : tables.top() + 1;
}

}  // namespace trireme::solve
