// Digests of a run's parameters, in chain order, so that they do not depend on the split.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "state/stage.h"
#include "update/optimizer.h"
#include "update/reducer.h"

#include "trireme/comm/channel.h"

#include <string>

namespace trireme::runtime {

struct ParametersDigest {
  /// 32 hex digits over names and values of all parameters in chain order, a tied weight once.
  std::string whole;
  /// This rank's first parameter with a value that is not finite, by its name in a checkpoint, and
  /// that value ("nan at index 17"); empty: none. Frozen parameters may be built with infinities.
  std::string lost, found;
};

/// Collective over all ranks.
ParametersDigest parameters_digest(comm::Channel& channel, const Position& position,
                                   const Stage& stage, Reducer& reducer, Optimizer& optimizer);

/// Digest of the weights that this rank's layers compute with.
std::string weights_digest(Stage& stage);

}  // namespace trireme::runtime
