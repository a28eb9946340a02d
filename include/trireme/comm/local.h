// Ranks as threads of one process: the transport of tests, of several stages on one machine without
// mpirun, and of a single rank.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"

#include <functional>

namespace trireme::comm {

/// Runs `body` once per rank, each on a thread of its own (rank 0 on the calling thread), each with
/// its channel of a common local transport. When one throws, the others' waits end; the first error
/// is thrown again here once all have ended.
void run_local(int ranks, const ChannelOptions& options, const std::function<void(Channel&)>& body);

}  // namespace trireme::comm
