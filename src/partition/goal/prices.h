// Prices: the same question with other costs of passes and copies. The planner makes the fastest
// plan for the priced question; what that plan takes in time and energy is predicted with the real
// costs. So every search, table and solver serves for energy as it is.
//
// A pass at `joules` 1 takes time in proportion to its energy; at 0 its real time. Copies at
// `copies` 1/2 take half their time: plans then copy where they would recompute, which takes less
// energy and more time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/problem.h"

#include <vector>

namespace trireme::partition {

struct Prices {
  double joules = 0;  ///< share of a pass's price that is its energy, 0 to 1
  double copies = 1;  ///< factor of the time of copies; infinity: none are made

  bool operator==(const Prices&) const = default;
};

/// The question at these prices. Both parts of a split backward and recomputed forwards are in
/// proportion to their pass.
Question priced(Question question, const Prices& prices);

/// Prices to begin with, without the real ones: those that may make a difference for this question.
std::vector<Prices> prices_to_try(const Question& question);

/// Energy of a pass at the rank's usual clock: the layer's own, `known`, or where that is 0, by the
/// rank's power model. `time`: at speed 1.
Joules pass_energy(const chain::RankSpec& rank, Joules known, Seconds time);

/// Whether the chain or a rank in use says what energy costs.
bool knows_energy(const Problem& problem);

}  // namespace trireme::partition
