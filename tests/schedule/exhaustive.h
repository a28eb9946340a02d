// The fastest order of a tiny workload, found by trying all of them, and a judge of given orders.
// Neither uses anything of the module but its types. All times are whole seconds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/schedule/search.h"

#include <optional>

namespace trireme::schedule {

struct Judgement {
  long step = 0;
  bool fits = true;
};

/// Runs an order; nothing where ranks wait in a circle.
std::optional<Judgement> judge(const Workload& workload, const Order& order);

/// Least step of all orders that fit and take less than `limit`; nothing where there is none.
std::optional<long> least_step(const Workload& workload, long limit);

}  // namespace trireme::schedule
