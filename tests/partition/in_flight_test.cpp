// Numbers in flight by 1F1B*.
// SPDX-License-Identifier: Apache-2.0
#include "cut/in_flight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

namespace trireme::partition {
namespace {

using testing::ElementsAre;

std::vector<Seconds> in_seconds(const std::vector<double>& numbers) {
  std::vector<Seconds> times;
  for (const double number : numbers) times.emplace_back(number);
  return times;
}

std::vector<int> counts_for(const std::vector<double>& stages, const std::vector<double>& links,
                            double period) {
  return least_in_flight(in_seconds(stages), in_seconds(links), Seconds(period));
}

TEST(LeastInFlight, CountsStagesFromTheEndWhereEachFillsThePeriod) {
  EXPECT_THAT(counts_for({5, 5, 5, 5}, {0, 0, 0}, 5), ElementsAre(4, 3, 2, 1));
}

TEST(LeastInFlight, PutsShortStagesIntoOneGroup) {
  // From the end: 2 + 3 fit into one period, 4 does not any more, 1 goes with it.
  EXPECT_THAT(counts_for({1, 4, 3, 2}, {0, 0, 0}, 5), ElementsAre(2, 2, 1, 1));
}

TEST(LeastInFlight, LinksAreResourcesToo) {
  EXPECT_THAT(counts_for({5, 5}, {1}, 5), ElementsAre(3, 1));
  EXPECT_THAT(counts_for({2, 2}, {1}, 5), ElementsAre(1, 1));
}

// Resources are grouped from the last on: a group's sum is at most T, and a resource's number in
// flight is that of its group.
TEST(LeastInFlight, IsTheNumberOfTheGroup) {
  for (int seed = 0; seed < 500; ++seed) {
    std::vector<double> stages, links;
    for (int k = 0; k < 5; ++k) stages.push_back(1 + (seed * 7 + k * k * 3 + seed / 9 * k) % 8);
    for (int k = 0; k < 4; ++k) links.push_back((seed * 5 + k * 11) % 3);
    const double period = *std::max_element(stages.begin(), stages.end()) + seed % 4;
    std::vector<int> groups(5);
    double sum = 0;
    int group = 1;
    const auto put = [&](double taken) {
      if (sum + taken > period) {
        ++group;
        sum = 0;
      }
      sum += taken;
    };
    for (int k = 4; k >= 0; --k) {
      const auto at = static_cast<std::size_t>(k);
      if (k < 4) put(links[at]);
      put(stages[at]);
      groups[at] = group;
    }
    EXPECT_EQ(counts_for(stages, links, period), groups) << seed;
  }
}

/// Six layers; what a stage holds is three times its weights and, as often as micro-batches are in
/// flight, what its layers store.
struct Layers {
  std::vector<double> work{11, 23, 17, 14, 9, 5};
  std::vector<double> weights{1, 2, 3, 4, 6, 8}, stored{2, 6, 3, 3, 2, 2};

  static double sum(const std::vector<double>& of, int from, int to) {
    return std::accumulate(of.begin() + from, of.begin() + to, 0.0);
  }
  /// Least period over all cuts into so many stages, links of `rate` (0: free); infinity if none.
  double least_period(int stages, double rate, double memory) const {
    double least = std::numeric_limits<double>::infinity();
    for (int a = 1; a < 6; ++a) {
      for (int b = stages == 2 ? a : a + 1; b < (stages == 2 ? a + 1 : 6); ++b)
        least = std::min(
            least, period_of(stages == 2 ? std::vector<int>{0, a, 6} : std::vector<int>{0, a, b, 6},
                             rate, memory));
    }
    return least;
  }
  /// Numbers in flight change only where the period is the sum of neighbouring resources.
  double period_of(const std::vector<int>& ends, double rate, double memory) const {
    std::vector<double> stages, links, all;
    for (std::size_t k = 0; k + 1 < ends.size(); ++k) {
      stages.push_back(sum(work, ends[k], ends[k + 1]));
      all.push_back(stages.back());
      if (k + 2 == ends.size()) break;
      links.push_back(rate > 0 ? 2 * stored[static_cast<std::size_t>(ends[k + 1])] / rate : 0);
      all.push_back(links.back());
    }
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < all.size(); ++i) {
      double period = 0;
      for (std::size_t j = i; j < all.size(); ++j) {
        period += all[j];
        if (period < *std::max_element(all.begin(), all.end()) || period >= least) continue;
        const std::vector<int> counts = counts_for(stages, links, period);
        bool fits = true;
        for (std::size_t k = 0; k < counts.size(); ++k)
          fits = fits && 3 * sum(weights, ends[k], ends[k + 1]) +
                                 counts[k] * sum(stored, ends[k], ends[k + 1]) <=
                             memory;
        if (fits) least = period;
      }
    }
    return least;
  }
};

// Periods found by an independent program: bisection on the period over a recurrence for the least
// time between a forward and its backward, itself compared with all cuts of random chains.
TEST(LeastInFlight, GivesTheKnownPeriodsOfSixLayers) {
  const Layers layers;
  const double none = std::numeric_limits<double>::infinity();
  struct Known {
    double memory, two, two_linked, three, three_linked;
  };
  for (const Known& known :
       {Known{36, none, none, 79, 84}, Known{40, none, none, 51, 51}, Known{44, none, none, 51, 51},
        Known{48, 79, 81, 34, 34}, Known{56, 79, 81, 34, 34}, Known{64, 51, 51, 34, 34},
        Known{80, 45, 45, 34, 34}, Known{100, 45, 45, 34, 34}}) {
    EXPECT_EQ(layers.least_period(2, 0, known.memory), known.two) << known.memory;
    EXPECT_EQ(layers.least_period(2, 2, known.memory), known.two_linked) << known.memory;
    EXPECT_EQ(layers.least_period(3, 0, known.memory), known.three) << known.memory;
    EXPECT_EQ(layers.least_period(3, 2, known.memory), known.three_linked) << known.memory;
  }
}

}  // namespace
}  // namespace trireme::partition
