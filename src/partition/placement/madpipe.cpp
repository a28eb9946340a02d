// SPDX-License-Identifier: Apache-2.0
#include "madpipe.h"

#include "allocation.h"
#include "allocation_search.h"
#include "shared_plans.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace trireme::partition {
namespace {

/// Up to so many allocations are all looked at.
constexpr double kAll = 2000;
/// Labels that the dynamic program keeps; what it finds with more is looked at as well where layers
/// x stages are few, for it is neither always better nor quick.
constexpr std::size_t kLabels = 12, kMoreLabels = 24;
constexpr int kFewPlaces = 300;
/// Periods between the least that is found and one that is too long.
constexpr int kBisections = 7;
constexpr double kLonger[] = {1.02, 1.05, 1.1, 1.2};
/// Allocations that are simulated, and numbers in flight for each.
constexpr std::size_t kBuilt = 12;
constexpr std::size_t kBuiltCounts = 2;
/// Allocations that climbing looks at.
constexpr int kSteps = 200;
/// What is estimated to take so much longer than the best is not simulated.
constexpr double kHopeless = 1.02;

class Madpipe {
 public:
  Madpipe(const StageRoom& room, StagePolicy& policy, double least, double handicap)
      : room_(room), plans_(room, policy), least_(least), longer_(1 + handicap) {}

  std::optional<plan::Plan> best();

 private:
  struct Candidate {
    double step = 0;  // as counted
    Allocation allocation;
    Counts counts;
  };
  /// All allocations, or those that the dynamic program finds for several periods.
  std::set<Allocation> allocations();
  void search(int special, std::size_t labels, std::set<Allocation>& found);
  /// With every number in flight, by estimate; none if no plan could be faster than the best.
  std::vector<Candidate> candidates(const Allocation& allocation);
  /// Keeps the plan if it is the best so far.
  bool build(const Candidate& candidate);
  /// Moves the ends of the best plan's stages by a layer while that helps.
  void climb();
  /// What a step counts as that takes so long.
  double counted(double step, const Allocation& allocation) const;

  const StageRoom& room_;
  SharedPlans plans_;
  double least_;  // what the best plan's step counts as, or what it has to be below
  double longer_;
  std::optional<plan::Plan> plan_;
  Allocation allocation_;  // of the plan
};

}  // namespace

std::optional<plan::Plan> madpipe_plan(const StageRoom& room, StagePolicy& policy, double least,
                                       double handicap) {
  return Madpipe(room, policy, least, handicap).best();
}

namespace {

std::optional<plan::Plan> Madpipe::best() {
  std::vector<std::vector<Candidate>> found;  // by allocation
  for (const Allocation& allocation : allocations()) {
    std::vector<Candidate> of_one = candidates(allocation);
    if (!of_one.empty()) found.push_back(std::move(of_one));
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.front().step < b.front().step; });
  for (std::size_t i = 0; i < std::min(kBuilt, found.size()); ++i) {
    for (std::size_t j = 0; j < std::min(kBuiltCounts, found[i].size()); ++j) build(found[i][j]);
  }
  if (plan_) climb();
  return std::move(plan_);
}

std::set<Allocation> Madpipe::allocations() {
  std::set<Allocation> found;
  const std::vector<int> specials = special_ranks(room_.question().platform, room_.stages());
  const double count = count_allocations(room_.layers(), room_.stages());
  for (const int special : specials) {
    if (count * static_cast<double>(specials.size()) > kAll) {
      search(special, kLabels, found);
      if (room_.layers() * room_.stages() <= kFewPlaces) search(special, kMoreLabels, found);
      continue;
    }
    for (Allocation& allocation : every_allocation(room_.layers(), room_.stages(), special))
      found.insert(std::move(allocation));
  }
  return found;
}

void Madpipe::search(int special, std::size_t labels, std::set<Allocation>& found) {
  AllocationSearch search(plans_, special, labels);
  const auto look = [&](double period) {
    const std::vector<Allocation> within = search.within(period);
    found.insert(within.begin(), within.end());
    return !within.empty();
  };
  const int micro_batches = room_.question().micro_batches;
  double less = search.least_period(), enough = 2 * room_.stages() * less;
  if (least_ != kNever) enough = std::min(enough, least_ / micro_batches);
  if (enough < less || !look(enough)) return;
  const double most = enough;
  for (int round = 0; round < kBisections; ++round) {
    const double middle = (less + enough) / 2;
    (look(middle) ? enough : less) = middle;
  }
  for (const double longer : kLonger) {
    if (enough * longer < most) look(enough * longer);
  }
}

std::vector<Madpipe::Candidate> Madpipe::candidates(const Allocation& allocation) {
  std::vector<Candidate> found;
  if (counted(least_step(room_, allocation), allocation) >= least_ * (1 - kGain)) return found;
  for (const Counts& counts : plans_.counts_for(allocation)) {
    const double step = plans_.estimate(allocation, counts);
    if (step != kNever) found.push_back({counted(step, allocation), allocation, counts});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Candidate& a, const Candidate& b) { return a.step < b.step; });
  return found;
}

bool Madpipe::build(const Candidate& candidate) {
  if (candidate.step >= least_ * kHopeless) return false;
  auto plan = plans_.built(candidate.allocation, candidate.counts);
  if (!plan) return false;
  const double step = counted(plan->step.count(), candidate.allocation);
  if (step >= least_ * (1 - kGain)) return false;
  least_ = step;
  plan_ = std::move(plan);
  allocation_ = candidate.allocation;
  return true;
}

double Madpipe::counted(double step, const Allocation& allocation) const {
  return allocation.stages() > room_.stages() ? step * longer_ : step;
}

void Madpipe::climb() {
  int left = kSteps;
  for (bool better = true; better && left > 0;) {
    better = false;
    const Allocation from = allocation_;
    for (int k = 0; k + 1 < from.stages() && !better; ++k) {
      for (const int move : {-1, 1}) {
        Allocation next = from;
        int& end = next.ends[static_cast<std::size_t>(k)];
        end += move;
        if (end < next.first(k) || end >= next.last(k + 1)) continue;
        const std::vector<Candidate> found = candidates(next);
        for (std::size_t i = 0; i < std::min(kBuiltCounts, found.size()); ++i)
          better = build(found[i]) || better;
        if (better || --left <= 0) break;
      }
    }
  }
}

}  // namespace
}  // namespace trireme::partition
