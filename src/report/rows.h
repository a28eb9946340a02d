// Kind and row of a timeline event, the same in pages and in traces.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/simulate/simulate.h"

#include <compare>
#include <string>
#include <string_view>

namespace trireme::report {

/// Kinds of events. A measured step also has events that take no time in a simulated one: waits,
/// loads, the end of the step.
enum class Kind { kForward, kRecompute, kBackward, kWeights, kCopy, kMessage, kWait, kOther };

Kind kind_of(const simulate::Event& event);
/// "forward", "recompute": its CSS class and its category in a trace.
std::string_view name(Kind kind);

/// A row of a rank: one of its lanes, or its messages of one kind to or from one peer.
struct Row {
  simulate::Lane lane{};
  int peer = -1;  ///< on links; -1: unknown
  bool gradients = false, arriving = false;

  auto operator<=>(const Row&) const = default;
};

Row row_of(const simulate::Event& event);
/// "compute", "outputs to rank 1".
std::string name(const Row& row);

}  // namespace trireme::report
