// Memory that a rank saves by holding several uses of one tied weight.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/config/job.h"
#include "trireme/core/units.h"
#include "trireme/model/chain.h"

#include <string>
#include <utility>
#include <vector>

namespace trireme::profile {

/// The uses of tied weights in a chain. Builds one layer of every kind, one at a time.
class TiedWeights {
 public:
  TiedWeights(const model::ChainModel& model, const config::TrainSpec& train);

  /// How many of the `parameters` and `optimizer` bytes of these runs of layers, each first..last,
  /// a rank that has all of them does not hold: uses of a tied weight after the first share its
  /// value and state.
  chain::SharedBytes shared(const std::vector<std::pair<int, int>>& runs) const;

 private:
  /// What a rank saves if it holds an earlier use.
  struct Use {
    std::string tie;
    chain::SharedBytes size;
  };
  static std::vector<Use> uses_of(model::Layer& layer, const config::TrainSpec& train);

  std::vector<std::vector<Use>> uses_;  ///< by layer, from 1
};

}  // namespace trireme::profile
