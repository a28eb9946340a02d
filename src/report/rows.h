// What an event of a timeline is, and the row in which it stands: the same in pages and in traces.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/simulate/simulate.h"

#include <compare>
#include <string>
#include <string_view>

namespace trireme::report {

/// What time goes on. A measured step also has what a simulated one takes as nothing: waits as
/// events of their own, loads, the end of the step.
enum class Kind { kForward, kRecompute, kBackward, kWeights, kCopy, kMessage, kWait, kOther };

Kind kind_of(const simulate::Event& event);
/// "forward", "recompute": the class of its colour, its category in a trace.
std::string_view name(Kind kind);

/// A row of a rank: one of its own lanes, or its messages of one sort to or from one peer.
struct Row {
  simulate::Lane lane{};
  int peer = -1;  ///< on links; -1: whichever it was
  bool gradients = false, arriving = false;

  auto operator<=>(const Row&) const = default;
};

Row row_of(const simulate::Event& event);
/// "compute", "outputs to rank 1".
std::string name(const Row& row);

}  // namespace trireme::report
