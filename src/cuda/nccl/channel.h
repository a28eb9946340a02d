// NCCL transport for device memory, with another transport for all other messages.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"
#include "trireme/comm/link.h"

#include <memory>

namespace trireme::comm {

/// Has no links at first; `device` is this rank's GPU. connect() sets up one communicator for each
/// direction between two ranks, one after the other, and sends a first message over each, so that
/// first use connects nothing and allocates no memory. It throws CommError, e.g. if two ranks share
/// a GPU, which NCCL refuses.
///
/// Messages of device memory go over NCCL on their link; they start after work already queued on
/// the caller's current CUDA stream, and the host waits for their end. Over `control` the receiver
/// says that it is ready and the sender that it has queued a message, with its size: so no message
/// can block another that it waits for, sizes are checked and a timeout says what a late rank is
/// doing. Every call, and every wait of this channel, acts on what other ranks say.
/// All other messages, including empty ones and device memory without a link, go over `control`,
/// which must accept them and outlive the channel; close() leaves it open.
std::unique_ptr<LinkedChannel> make_nccl_channel(Channel& control, const ChannelOptions& options,
                                                 int device);

}  // namespace trireme::comm
