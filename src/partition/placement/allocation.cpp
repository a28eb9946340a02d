// SPDX-License-Identifier: Apache-2.0
#include "allocation.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace trireme::partition {
namespace {

double choose(int from, int count) {
  double ways = 1;
  for (int i = 0; i < count; ++i) ways *= static_cast<double>(from - i) / (i + 1);
  return ways;
}

/// Grows an allocation stage by stage.
class Enumeration {
 public:
  Enumeration(int layers, std::vector<int> normal, int special)
      : layers_(layers), normal_(std::move(normal)), special_(special) {}

  std::vector<Allocation> all() {
    extend(0, false);
    return std::move(found_);
  }

 private:
  /// With so many normal stages and perhaps special ones so far, by all that can become whole.
  void extend(std::size_t normals, bool has_special);

  int layers_;
  std::vector<int> normal_;
  int special_;
  Allocation grown_;
  std::vector<Allocation> found_;
};

}  // namespace

std::vector<std::vector<int>> stages_by_rank(const Allocation& allocation, int ranks) {
  std::vector<std::vector<int>> stages(static_cast<std::size_t>(ranks));
  for (int k = 0; k < allocation.stages(); ++k)
    stages[static_cast<std::size_t>(allocation.rank(k))].push_back(k);
  return stages;
}

std::vector<int> normal_ranks(int ranks, int special) {
  std::vector<int> normal(static_cast<std::size_t>(ranks));
  std::iota(normal.begin(), normal.end(), 0);
  normal.erase(normal.begin() + special);
  return normal;
}

std::vector<int> special_ranks(const chain::Platform& platform, int ranks) {
  std::vector<int> special;
  const auto spec = [&](int rank) { return platform.ranks[static_cast<std::size_t>(rank)]; };
  for (int rank = 0; rank < ranks; ++rank) {
    // Where links differ, ranks that are alike are not.
    if (rank == 0 || spec(rank) != spec(rank - 1) || !platform.overrides.empty())
      special.push_back(rank);
  }
  return special;
}

double count_allocations(int layers, int ranks) {
  double count = 0;
  for (int specials = 1; specials <= ranks; ++specials)
    count += choose(ranks, specials) * choose(layers - 1, ranks + specials - 2);
  return count;
}

std::vector<Allocation> every_allocation(int layers, int ranks, int special) {
  return Enumeration(layers, normal_ranks(ranks, special), special).all();
}

double least_step(const StageRoom& room, const Allocation& allocation) {
  double least = 0;
  for (const std::vector<int>& stages : stages_by_rank(allocation, room.stages())) {
    if (stages.empty()) continue;
    double load = 0, before = 0;
    for (const int k : stages)
      load += room.work(allocation.rank(k), allocation.first(k), allocation.last(k));
    for (int k = 0; k < stages.front(); ++k)
      before += room.work(allocation.rank(k), allocation.first(k), allocation.last(k));
    least = std::max(least, before + load * room.question().micro_batches);
  }
  return least;
}

namespace {

void Enumeration::extend(std::size_t normals, bool has_special) {
  const int begin = grown_.ends.empty() ? 1 : grown_.ends.back() + 1;
  if (begin > layers_) return found_.push_back(grown_);
  const bool may_be_special = grown_.ranks.empty() || grown_.ranks.back() != special_;
  for (const bool special : {false, true}) {
    if (special ? !may_be_special : normals == normal_.size()) continue;
    const std::size_t with = normals + (special ? 0 : 1);
    const bool has_one = has_special || special;
    // Stages that must still come need a layer each; where none can come, no layer is left.
    const int left = static_cast<int>(normal_.size() - with);
    const int first_end = special && left == 0 ? layers_ : begin;
    const int last_end = layers_ - left - (has_one ? 0 : 1);
    grown_.ranks.push_back(special ? special_ : normal_[normals]);
    for (int last = first_end; last <= last_end; ++last) {
      grown_.ends.push_back(last);
      extend(with, has_one);
      grown_.ends.pop_back();
    }
    grown_.ranks.pop_back();
  }
}

}  // namespace
}  // namespace trireme::partition
