// Puts receives in the order of sending.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/program/action.h"

namespace trireme::program {

/// Where two ranks share several stage boundaries, one stream carries the messages of all of them,
/// in the order of sending; the receiver may need them in another order. Moves receives forward,
/// each right before the first receive of its stream that was sent after it. No rank waits longer
/// for that: what was sent after it does not arrive before it.
void receive_in_order_of_sending(Program& program);

}  // namespace trireme::program
