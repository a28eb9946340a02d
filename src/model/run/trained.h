// Which parameters of a chain are trained.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/adapters.h"
#include "trireme/config/huggingface.h"
#include "trireme/model/chain.h"

#include <string>
#include <utility>
#include <vector>

namespace trireme::model {

/// Freezes all parameters except those whose place in the chain (`names`) matches a pattern. Builds
/// one layer of each kind.
void train_only(ChainModel& model, const std::vector<std::string>& patterns,
                const config::WeightNames& names);

/// Trains what `trained` selects; without it, if there are adapters, only those.
template <class Spec>
void train_as_asked(ChainModel& model, const Spec& spec) {
  const std::vector<std::string> patterns = config::trained_patterns(spec);
  if (!patterns.empty()) train_only(model, patterns, config::WeightNames(spec));
}

}  // namespace trireme::model
