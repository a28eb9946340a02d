// Receives in the order of sending.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/program/action.h"

namespace trireme::program {

/// Where two ranks share several cuts, one stream carries the messages of all of them, in the order
/// of sending; the receiver may want them in another order. Moves receives forward, each right
/// before the first receive of its stream that was sent after it. Nobody waits longer for that:
/// what was sent after it has not come before it either.
void receive_in_order_of_sending(Program& program);

}  // namespace trireme::program
