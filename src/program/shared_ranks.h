// The order of passes on ranks with several stages.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "slots.h"

#include "trireme/program/generate.h"

#include <cstddef>
#include <vector>

namespace trireme::program {

int rank_of(const Lowering& lowering, std::size_t stage);

/// Whether some rank has several stages.
bool shares_ranks(const Lowering& lowering);

/// The passes of every rank in the order in which it runs them. Throws InputError where the turns
/// do not fit the rank's stages.
std::vector<std::vector<StagePass>> passes_by_rank(const Lowering& lowering, int ranks);

}  // namespace trireme::program
