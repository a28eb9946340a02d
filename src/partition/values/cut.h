// Where a chain is cut: the last layer of every stage, the chain's last among them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/problem.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace trireme::partition {

using Cut = std::vector<int>;

/// The cut that the question fixes, if it does.
std::optional<Cut> fixed_cut(const Question& question);

/// That of a plan.
Cut cut_of(const plan::Plan& plan);

/// The plan's stages by what a micro-batch takes on them, the longest first.
std::vector<std::size_t> slowest_first(const plan::Plan& plan);

/// Numbers of layers as equal as can be, longer ones first.
Cut equal_cut(int layers, int stages);

}  // namespace trireme::partition
