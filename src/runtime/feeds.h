// Loads the micro-batches of a run's steps, ahead on a device that is not the host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "step/executor.h"

#include "trireme/program/action.h"
#include "trireme/runtime/trainer.h"

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace trireme::runtime {

/// A step begins with loading a micro-batch, for which an idle device would wait while the host
/// prepares it. Unless the device is the host, that is done ahead, while the device still works on
/// the step before.
class Feeds {
 public:
  /// For a rank with this program, whose micro-batch 0 has number `first` among those of all
  /// replicas.
  Feeds(const DataSource& data, const std::vector<program::Action>& actions, int first,
        std::int64_t steps, bool loads_ahead);

  Feed of_step(std::int64_t step);
  Feed of_validation(int first) const;

 private:
  using Key = std::pair<program::Op, int>;  ///< an action's op and micro-batch

  model::Values load(std::int64_t step, Key what);
  model::Values from_data(std::int64_t step, Key what) const;
  void load_ahead(std::int64_t step);

  const DataSource& data_;
  int first_;
  std::int64_t steps_;
  std::vector<Key> firsts_;  ///< what is loaded ahead: the program's first input, its first target
  std::int64_t ahead_of_ = 0;
  std::map<Key, model::Values> ahead_;  ///< for the step `ahead_of_`
};

}  // namespace trireme::runtime
