// What can be said of a program without running it.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/program/updates.h"
#include "trireme/simulate/ledger.h"
#include "trireme/simulate/simulate.h"
#include "trireme/simulate/validate.h"

#include <optional>

namespace trireme::simulate {

/// The first action (or head) that does not fit its chain, platform and ranks: after it, every
/// index that a program carries may be used without a check.
std::optional<ProgramFault> check_shape(const program::Program& program, const Setting& setting);

/// Whether the end of the step is on every rank, complete and last, or on none.
std::optional<ProgramFault> check_step_end(const program::Program& program);

/// Whether updates of layers alone are of those whose weights come and go, part by part, and where
/// the gradients are that they need.
std::optional<ProgramFault> check_updates(const program::Program& program, const Setting& setting);

/// The layers between the first and the last of a rank.
Ledger::Scope scope_of(const Setting& setting, const program::Program& program, int rank,
                       bool trains);

/// Of a rank, 0 where the setting has none.
Bytes optimizer_away(const Setting& setting, int rank);

/// What a rank's offload tier holds whatever its program does: optimizer state and streamed
/// weights.
OffloadRoom always_outside(const Setting& setting, const program::Program& program, int rank);

/// Of what base_bytes() has for optimizer state on its way among passes.
Bytes update_window(const Setting& setting, const program::LayerUpdates& updates, int rank);

/// Static bytes and channel_bytes() of a rank.
Bytes base_bytes(const Setting& setting, const program::Program& program, int rank);

}  // namespace trireme::simulate
