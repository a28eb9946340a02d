// What would help where nothing fits: host memory for what may be offloaded.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "search.h"

#include <optional>

namespace trireme::partition {

/// For a question that nothing answers: an amount of host memory on every rank, of as much as the
/// optimizer's state takes or, where that does not do, the weights too, with which `propose` was
/// found to answer it.
std::optional<plan::Advice> host_advice_for(const Question& question, const Planner& propose);

}  // namespace trireme::partition
