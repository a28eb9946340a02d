// Local transport: ranks are threads of one process. For tests, for several stages on one machine
// without mpirun, and for a single rank.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"

#include <functional>

namespace trireme::comm {

/// Runs `body` once per rank, each on a thread of its own (rank 0 on the calling thread), each with
/// its own channel of one local transport. If one throws, the others' waits end; the error that
/// caused the others is rethrown here once all have ended.
void run_local(int ranks, const ChannelOptions& options, const std::function<void(Channel&)>& body);

}  // namespace trireme::comm
