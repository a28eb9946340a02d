// SPDX-License-Identifier: Apache-2.0
#include "uniform_sizes.h"

#include "cut_search.h"

#include "trireme/core/text.h"

#include <algorithm>
#include <utility>

namespace trireme::partition {
namespace {

/// Sizes up to which all are tried; beyond, each is about a fifth larger than the one before it.
constexpr int kEvery = 8;

}  // namespace

// A stage may well be twice as long as the mean, hardly longer.
std::vector<std::string> uniform_policies(const StageRoom& room) {
  const int longest = std::min(room.layers(), 2 * (room.layers() / room.stages() + 1));
  std::vector<std::string> names;
  for (int size = 1; size < longest; size += size < kEvery ? 1 : size / 5 + 1) {
    // One layer at a time is recompute_all.
    if (size > 1) names.push_back(concat("uniform ", size));
    names.push_back(concat("block ", size));
  }
  if (names.empty()) names.push_back("uniform 2");
  return names;
}

std::vector<std::string> hopeful_uniform_policies(const StageRoom& room, PlanBuilder& builder,
                                                  std::size_t most) {
  const Cut even = equal_cut(room.layers(), room.stages());
  std::vector<std::pair<double, std::string>> ranked;
  for (std::string& name : uniform_policies(room)) {
    CutSearch search(room, builder.policy(name));
    double step = search.step(even, false);
    if (const auto cut = search.least_period()) step = std::min(step, search.step(*cut, false));
    if (step < kNever) ranked.emplace_back(step, std::move(name));
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (auto& [step, name] : ranked) {
    if (names.size() < most) names.push_back(std::move(name));
  }
  return names;
}

}  // namespace trireme::partition
