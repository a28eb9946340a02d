// Shared by the solvers that search for copies: the best program so far, the searches, the leanest
// program.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "copy_program.h"
#include "copy_search.h"

#include "trireme/solve/solve.h"
#include "trireme/solve/tables.h"

#include <limits>
#include <optional>
#include <vector>

namespace trireme::solve {

/// The fastest program that was offered and keeps the budget.
class BestProgram {
 public:
  explicit BestProgram(const Problem& problem) : problem_(problem) {}

  void offer(const std::vector<CopyPart>& parts);
  /// Offers a program that was made elsewhere.
  void offer(Solution solution);
  /// Drops offloads that gain no time: as fast, with less to copy.
  void drop_needless_copies();
  const std::optional<Solution>& best() const { return best_; }
  /// Seconds that a program must beat.
  double bound() const {
    return best_ ? best_->time.count() : std::numeric_limits<double>::infinity();
  }

 private:
  std::optional<Solution> judged(const std::vector<CopyPart>& parts) const;

  const Problem& problem_;
  std::optional<Solution> best_;
  std::vector<CopyPart> parts_;  // parts of the best one; none if it was made elsewhere
};

/// Offers what the fluid relaxation plans, then what the search with whole tensors finds. Where the
/// latter is incomplete, it runs again with a lower bound, which leaves it more labels for
/// promising plans.
void search_copies(const CopySetting& setting, BestProgram& best);

/// Labels that a search may keep per layer (its beam width): more for short chains, fewer where the
/// problem asks for coarser slots.
std::size_t most_labels(const Problem& problem);

/// The decisions with the least peak when all that is kept may be offloaded, whatever the time.
/// Without a freedom every layer is taped once.
std::vector<CopyPart> leanest_parts(const Problem& problem, std::optional<Freedom> freedom);

}  // namespace trireme::solve
