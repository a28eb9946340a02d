// The search for copies: the fluid relaxation first, then whole tensors with ever lower bounds.
//
// SPDX-License-Identifier: Apache-2.0
#include "copy_plan.h"

#include "judge/judge.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace trireme::solve {
namespace {

// Plans of the relaxation that are replayed: close to each other in the relaxation, but not with
// whole tensors.
constexpr std::size_t kFluidPlans = 8;
// Searches with whole tensors, each with its bound a quarter of the way down to what is known to be
// out of reach; until no more than this share is to be gained.
constexpr int kSearches = 6;
constexpr double kLower = 0.25, kWorthIt = 1e-3;

constexpr double kLabelsTimesLayers = 10'000;
constexpr double kLeastLabels = 20, kMostLabels = 4000;
constexpr double kManySlots = 100;

void offer_fluid(const CopySetting& setting, BestProgram& best) {
  CopySearch<FluidLane> search(setting);
  search.run(best.bound());
  auto ends = search.ends();
  ends.resize(std::min(ends.size(), kFluidPlans));
  for (const auto& end : ends) best.offer(parts_of(search.steps(end), setting.redo));
}

// Whether everything below the bound was looked at.
bool offer_tensors(const CopySetting& setting, double bound, BestProgram& best) {
  CopySearch<TensorLane> search(setting);
  search.run(bound);
  for (const auto& end : search.ends()) {
    if (end.time >= best.bound()) break;
    best.offer(parts_of(search.steps(end), setting.redo));
  }
  return search.complete();
}

}  // namespace

void BestProgram::offer(const std::vector<CopyPart>& parts) {
  std::optional<Solution> solution = judged(parts);
  if (!solution || solution->time.count() >= bound()) return;
  best_ = std::move(solution);
  parts_ = parts;
}

void BestProgram::offer(Solution solution) {
  if (solution.time.count() >= bound()) return;
  best_ = std::move(solution);
  parts_.clear();
}

// Late ones first: they have least time to be offloaded.
void BestProgram::drop_needless_copies() {
  for (std::size_t k = parts_.size(); k-- > 0;) {
    CopyPart& part = parts_[k];
    if (!part.leaves) continue;
    part.leaves = false;
    std::optional<Solution> solution = judged(parts_);
    part.leaves = !solution || solution->time > best_->time;
    if (!part.leaves) best_ = std::move(solution);
  }
}

std::optional<Solution> BestProgram::judged(const std::vector<CopyPart>& parts) const {
  CopyProgram made = copy_program(problem_, parts);
  if (made.needed > problem_.budget) return std::nullopt;
  return judged_with_copies(problem_, std::move(made.program));
}

void search_copies(const CopySetting& setting, BestProgram& best) {
  const Problem& problem = setting.problem;
  double least = 0;  // no plan takes less
  for (int i = problem.first_layer; i <= problem.last_layer; ++i)
    least += (problem.chain->layer(i).forward + problem.chain->layer(i).backward).count();
  const auto settled = [&] { return best.bound() <= least * (1 + kWorthIt); };
  if (best.bound() <= least) return;
  offer_fluid(setting, best);
  if (offer_tensors(setting, best.bound(), best) || !best.best()) return;
  for (int k = 1; k < kSearches && !settled(); ++k) {
    const double before = best.bound(), bound = before - kLower * (before - least);
    offer_tensors(setting, bound, best);
    if (best.bound() == before) least = bound;
  }
}

std::size_t most_labels(const Problem& problem) {
  const double layers = problem.last_layer - problem.first_layer + 1;
  const double share =
      problem.breadth * (problem.slots == 0 ? 4 : std::min(problem.slots / kManySlots, 1.0));
  return static_cast<std::size_t>(
      std::clamp(share * kLabelsTimesLayers / layers, kLeastLabels, kMostLabels));
}

}  // namespace trireme::solve
