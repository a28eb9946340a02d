// The memory model (docs: memory model) in one place: what every action needs, adds and frees, in
// bytes. Validator, replay, simulator and solvers' tests all use it. SPDX-License-Identifier:
// Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/program/action.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trireme::simulate {

/// What one rank holds, value by value. Applies actions one by one; an illegal one is answered with
/// the reason and changes nothing. Transfers are taken as finished at once (the simulator, which
/// knows time, splits them by its own calls).
class Ledger {
 public:
  /// `chain` must outlive the ledger.
  explicit Ledger(const chain::Chain& chain);

  /// Bytes during and after an action.
  struct Effect {
    Bytes during;  ///< peak while it runs, held bytes inside
    Bytes after;
  };

  /// Why `action` may not happen now ("x[3] of micro-batch 2 is not held"), or its effect, which is
  /// then applied.
  struct Outcome {
    std::optional<std::string> fault;
    Effect effect;
  };
  Outcome apply(const program::Action& action);

  Bytes held() const { return held_; }
  Bytes outer() const { return outer_; }  ///< bytes in the outer tier

  /// What is held now, largest first: ("tape 3 of micro-batch 1", bytes).
  std::vector<std::pair<std::string, Bytes>> contents() const;

 private:
  // What a value of (layer, micro-batch) is and where: filled by the module's author.
  struct Values;
  const chain::Chain& chain_;
  Bytes held_, outer_;
};

}  // namespace trireme::simulate
