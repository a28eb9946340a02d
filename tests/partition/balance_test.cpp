// SPDX-License-Identifier: Apache-2.0
#include "trireme/partition/balance.h"

#include "trireme/core/error.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>
#include <vector>

namespace trireme::partition {
namespace {

double heaviest_run(const std::vector<double>& work, const std::vector<int>& cut) {
  double heaviest = 0;
  double run = 0;
  for (std::size_t i = 0; i < work.size(); ++i) {
    run += work[i];
    if (i + 1 == work.size() ||
        std::find(cut.begin(), cut.end(), static_cast<int>(i + 1)) != cut.end()) {
      heaviest = std::max(heaviest, run);
      run = 0;
    }
  }
  return heaviest;
}

/// The least weight of the heaviest run, over all cuts.
double best_by_enumeration(const std::vector<double>& work, int stages) {
  double best = std::numeric_limits<double>::infinity();
  std::vector<int> cut;
  const std::function<void(int)> choose = [&](int from) {
    if (static_cast<int>(cut.size()) == stages - 1) {
      best = std::min(best, heaviest_run(work, cut));
      return;
    }
    for (int last = from; last < static_cast<int>(work.size()); ++last) {
      cut.push_back(last);
      choose(last + 1);
      cut.pop_back();
    }
  };
  choose(1);
  return best;
}

TEST(BalancedCut, EqualsTheBestOfAllCuts) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 300; ++trial) {
    const int layers = std::uniform_int_distribution(1, 8)(random);
    const int stages = std::uniform_int_distribution(1, layers)(random);
    std::vector<double> work;
    for (int i = 0; i < layers; ++i) work.push_back(std::uniform_int_distribution(0, 9)(random));

    const std::vector<int> cut = balanced_cut(work, stages);

    ASSERT_EQ(cut.size(), static_cast<std::size_t>(stages - 1));
    ASSERT_TRUE(std::is_sorted(cut.begin(), cut.end()));
    ASSERT_TRUE(std::adjacent_find(cut.begin(), cut.end()) == cut.end());
    EXPECT_EQ(heaviest_run(work, cut), best_by_enumeration(work, stages));
  }
}

TEST(BalancedCut, RefusesMoreStagesThanLayers) {
  EXPECT_THROW(balanced_cut({1, 2}, 3), InputError);
}

}  // namespace
}  // namespace trireme::partition
