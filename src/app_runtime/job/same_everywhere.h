// Ranks that are processes each read the job, build the chain and open the data: what they read
// must be the same.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"
#include "trireme/config/job.h"
#include "trireme/model/chain.h"

#include <string>

namespace trireme::app {

/// Collective. `data` is the digest of all examples. Throws InputError, on every rank the same,
/// where another rank than 0 has another job, another chain (the message names its first layer that
/// differs), other values for a layer to begin with, or other data.
void require_same_everywhere(comm::Channel& channel, const config::JobSpec& job,
                             const model::ChainModel& model, const std::string& data);

}  // namespace trireme::app
