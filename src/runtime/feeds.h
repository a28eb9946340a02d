// What the steps of a run take from the data set.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/program/action.h"
#include "trireme/runtime/executor.h"
#include "trireme/runtime/trainer.h"

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace trireme::runtime {

/// A step begins with loading a micro-batch, for which a device with nothing else to do would wait
/// while the host puts it together. Where the device is not the host that is done ahead: while the
/// device still works on the step before.
class Feeds {
 public:
  /// Of a rank with this program, whose micro-batch 0 is number `first` of all replicas.
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
