// Advice where nothing fits: host memory to offload to.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "search.h"

#include <optional>

namespace trireme::partition {

/// For a question without a plan: host memory per rank, enough for the optimizer state or, where
/// that is too little, also the weights, with which `propose` found a plan.
std::optional<plan::Advice> host_advice_for(const Question& question, const Planner& propose);

}  // namespace trireme::partition
