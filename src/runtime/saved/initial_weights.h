// Initial weights that are loaded from files instead of drawn.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "state/stage.h"
#include "update/optimizer.h"

#include "trireme/comm/channel.h"
#include "trireme/config/job.h"

namespace trireme::runtime {

/// Collective: fills the values of its stage's parameters, and its buffers, from
/// `job.weights`. Throws InputError on every rank when something is missing, of other sizes, or
/// left over.
void begin_with_weights(comm::Channel& channel, Stage& stage, Optimizer& optimizer,
                        const config::JobSpec& job);

}  // namespace trireme::runtime
