// A chain's costs as a table and as JSON.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/io/json.h"

#include <string>

namespace trireme::profile {

/// A table with a row for every group of layers that cost the same ("block0.mlp x 4", named after
/// the first) and the sums over all layers.
std::string to_table(const chain::Chain& chain);

/// Whether joules of some layer are known.
bool has_joules(const chain::Chain& chain);

/// An object with the fields of a chain file.
io::Json to_json(const chain::Chain& chain);

}  // namespace trireme::profile
