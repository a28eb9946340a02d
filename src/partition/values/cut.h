// A cut: the last layer of every stage, including the chain's last.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/problem.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace trireme::partition {

using Cut = std::vector<int>;

/// The cut that the question fixes, if any.
std::optional<Cut> fixed_cut(const Question& question);

/// The cut of a plan.
Cut cut_of(const plan::Plan& plan);

/// The plan's stages by their time for a micro-batch, longest first.
std::vector<std::size_t> slowest_first(const plan::Plan& plan);

/// Stages of as equal numbers of layers as possible, longer ones first.
Cut equal_cut(int layers, int stages);

}  // namespace trireme::partition
