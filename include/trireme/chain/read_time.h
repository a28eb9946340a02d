// Times in the files of chains, platforms and graphs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/io/node.h"

namespace trireme::chain {

/// Reads a time. Throws InputError for more than thirty years: sums over any chain or graph stay
/// finite and exact enough.
Seconds read_time(const io::Node& node);

}  // namespace trireme::chain
