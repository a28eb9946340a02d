// Static checks of a program, and what every rank holds whatever it runs.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/program/updates.h"
#include "trireme/simulate/ledger.h"
#include "trireme/simulate/simulate.h"
#include "trireme/simulate/validate.h"

#include <optional>

namespace trireme::simulate {

/// The first action (or header) that does not fit the chain, platform and ranks. If there is none,
/// every index in the program may be used without a check.
std::optional<ProgramFault> check_shape(const program::Program& program, const Setting& setting);

/// Whether the end of the step is on every rank, complete and last, or on none.
std::optional<ProgramFault> check_step_end(const program::Program& program);

/// Whether updates of single layers are of layers with streamed trained weights, have their parts
/// in order, and are where their gradients are complete.
std::optional<ProgramFault> check_updates(const program::Program& program, const Setting& setting);

/// The layers from the first to the last of a rank.
Ledger::Scope scope_of(const Setting& setting, const program::Program& program, int rank,
                       bool trains);

/// Offloaded optimizer state of a rank, 0 where the setting has none.
Bytes offloaded_optimizer(const Setting& setting, int rank);

/// What a rank's offload tier holds whatever its program does: optimizer state and streamed
/// weights.
OffloadRoom always_outside(const Setting& setting, const program::Program& program, int rank);

/// The window for optimizer state of overlapped updates, part of base_bytes().
Bytes update_window(const Setting& setting, const program::LayerUpdates& updates, int rank);

/// Static bytes and channel_bytes() of a rank.
Bytes base_bytes(const Setting& setting, const program::Program& program, int rank);

}  // namespace trireme::simulate
