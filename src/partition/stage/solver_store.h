// Stage solvers that questions share while a plan is searched: where weights and the optimizer's
// state are decides how much memory is left, not what tables say about the chain.
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

/// For any number of threads.
class SolverStore {
 public:
  /// Made when first asked for.
  std::shared_ptr<solve::StageSolver> solver(const chain::Chain& whole,
                                             const solve::StageSolver::Options& options);

 private:
  struct Entry {
    chain::Chain chain;  ///< what its passes take
    solve::StageSolver::Options options;
    std::shared_ptr<solve::StageSolver> solver;
  };
  /// Lets go of those that nobody uses, the longest unused first, until the others are few.
  void forget();

  std::mutex mutex_;
  std::vector<Entry> entries_;  ///< the last one was asked for last
};

/// The question's own, or a new one.
std::shared_ptr<SolverStore> store_of(const Question& question);
/// The same question with a store.
Question with_store(Question question);

}  // namespace trireme::partition
