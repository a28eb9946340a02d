// What the solvers that search for copies share: the best program so far, the two searches, and the
// leanest program. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "copy_program.h"
#include "copy_search.h"

#include "trireme/solve/solve.h"

#include <limits>
#include <optional>
#include <vector>

namespace trireme::solve {

/// The fastest program that was offered and keeps the budget.
class BestProgram {
 public:
  explicit BestProgram(const Problem& problem) : problem_(problem) {}

  void offer(const std::vector<CopyPart>& parts);
  void offer(std::optional<Solution> solution);
  const std::optional<Solution>& best() const { return best_; }
  /// Seconds that a program must beat.
  double bound() const {
    return best_ ? best_->time.count() : std::numeric_limits<double>::infinity();
  }

 private:
  const Problem& problem_;
  std::optional<Solution> best_;
};

/// Offers what the fluid relaxation plans, then what the search with whole tensors does.
void search_copies(const CopySetting& setting, BestProgram& best);

/// The decisions with the least peak when everything that is kept may leave, whatever the time.
/// Without `recompute`, every layer is taped once.
std::vector<CopyPart> leanest_parts(const Problem& problem, Freedom freedom, bool recompute);

}  // namespace trireme::solve
