// NCCL as a transport of device memory, beside another one for all else.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"
#include "trireme/comm/link.h"

#include <memory>

namespace trireme::comm {

/// Without links yet; `device` is this rank's GPU. connect() sets up one communicator per link, one
/// after the other, and moves a first message over each: nothing is connected when it is first
/// used, and memory is what it will be. It throws CommError, e.g. where two ranks share a GPU,
/// which NCCL refuses.
///
/// Messages of device memory go over NCCL on their link; they begin after what the caller's current
/// CUDA stream was given before, and the host waits for their end. Each is announced over `control`
/// with its size, so that sizes are compared, and so that waits for a rank that is late say what it
/// does instead. All other messages, empty ones and device memory without a link too, go over
/// `control`, which must take them and outlive the channel; close() leaves it open.
std::unique_ptr<LinkedChannel> make_nccl_channel(Channel& control, const ChannelOptions& options,
                                                 int device);

}  // namespace trireme::comm
