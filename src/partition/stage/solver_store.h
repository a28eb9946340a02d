// Cache of stage solvers shared by the questions of one search: placements of weights and optimizer
// state change the memory left, not the tables of the chain.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/partition/problem.h"
#include "trireme/solve/stage.h"

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace trireme::partition {

/// Thread-safe.
class SolverStore {
 public:
  /// Created on first use.
  std::shared_ptr<solve::StageSolver> solver(const chain::Chain& whole,
                                             const solve::StageSolver::Options& options);

 private:
  struct Entry {
    chain::Chain chain;  ///< costs of its passes
    solve::StageSolver::Options options;
    std::shared_ptr<solve::StageSolver> solver;
  };
  /// Releases unused entries, least recently used first, until the rest is small enough.
  void forget();

  std::mutex mutex_;
  std::vector<Entry> entries_;  ///< most recently used last
};

/// The question's store, or a new one.
std::shared_ptr<SolverStore> store_of(const Question& question);
/// The question with a store.
Question with_store(Question question);

}  // namespace trireme::partition
