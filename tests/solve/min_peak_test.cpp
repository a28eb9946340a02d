// Least-peak subsets against known values and against all subsets.
//
// SPDX-License-Identifier: Apache-2.0
#include "trireme/solve/min_peak.h"

#include "solve/chains.h"

#include "trireme/program/retape.h"
#include "trireme/simulate/replay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <utility>
#include <vector>

namespace trireme::solve {
namespace {

using program::Op;

// Nodes as the paper draws them: the first is the input, every other an output, kept as it is.
chain::Chain of_nodes(const std::vector<std::int64_t>& sizes) {
  const std::size_t n = sizes.size() - 1;
  return without_loss({.forward = std::vector<double>(n, 1),
                       .backward = std::vector<double>(n, 1),
                       .sizes = sizes,
                       .saved = std::vector<std::int64_t>(sizes.begin() + 1, sizes.end())});
}

// Segments begin where `kept` has a bit: bit i for x[i], i >= 1.
program::StageProgram keeping(int layers, unsigned kept) {
  program::StageProgram program{.first_layer = 1, .last_layer = layers};
  for (int begin = 1; begin <= layers;) {
    int end = begin;
    while (end < layers && (kept >> end & 1U) == 0) ++end;
    std::vector<program::Action> turn;
    for (int i = begin; i <= end; ++i) {
      const Op op = end == layers ? Op::kForwardTape : i == begin ? Op::kForwardKeep : Op::kForward;
      program.forward.push_back({op, i});
      if (end < layers) turn.push_back({Op::kForwardTape, i});
    }
    for (int i = end; i >= begin; --i) turn.push_back({Op::kBackward, i});
    program.backward.insert(program.backward.begin(), turn.begin(), turn.end());
    begin = end + 1;
  }
  return program;
}

Bytes peak_of(const chain::Chain& chain, const program::StageProgram& program) {
  const simulate::Replay replay = simulate::replay(chain, program::with_retapes(program, chain));
  EXPECT_FALSE(replay.fault) << replay.fault->reason;
  return replay.peak;
}

Bytes sum_of(const chain::Chain& chain, unsigned kept) {
  Bytes outputs = chain.output(0), segment, largest;
  for (int i = 1; i <= chain.length(); ++i) {
    segment += chain.layer(i).tape;
    largest = std::max(largest, segment);
    if (i < chain.length() && (kept >> i & 1U) != 0) {
      outputs += chain.output(i);
      segment = Bytes(0);
    }
  }
  return outputs + largest;
}

struct Known {
  std::vector<std::int64_t> sizes;
  std::int64_t least, keep_all;
};

// Found by trying all subsets with a simulator of the memory model.
const std::vector<Known> kKnown{
    {std::vector<std::int64_t>(10, 1), 7, 12}, {std::vector<std::int64_t>(17, 1), 9, 19},
    {std::vector<std::int64_t>(7, 4), 24, 36}, {{8, 6, 5, 3, 2, 1, 1}, 30, 30},
    {{2, 6, 3, 3, 2, 2, 1}, 20, 22},           {{5, 1, 7, 2, 6, 3, 4, 1}, 25, 35}};

TEST(MinPeak, ReachesTheKnownLeastPeaks) {
  for (const Known& known : kKnown) {
    const chain::Chain chain = of_nodes(known.sizes);
    EXPECT_EQ(least_peak(chain, 1, chain.length()).value, Bytes(known.least));
    EXPECT_EQ(std::get<Solution>(solve("min_peak", whole(chain, 1000))).peak, Bytes(known.least));
    EXPECT_EQ(std::get<Solution>(solve("keep_all", whole(chain, 1000))).peak,
              Bytes(known.keep_all));
  }
}

TEST(MinPeak, IsTheLeastPeakOfAllSubsets) {
  std::mt19937 random(4);
  for (int k = 0; k < 400; ++k) {
    chain::Chain chain = random_chain(random, {.most_layers = 9, .lean_tapes = k % 3 == 2});
    if (k % 2 == 0) chain = with_retapes(random, std::move(chain), Saves::kTimeAndBytes);
    Bytes least(std::numeric_limits<std::int64_t>::max());
    for (unsigned kept = 0; kept < 1U << chain.length(); kept += 2) {
      least = std::min(least, peak_of(chain, keeping(chain.length(), kept)));
    }
    EXPECT_EQ(least_peak(chain, 1, chain.length()).value, least) << chain::to_yaml(chain);
    EXPECT_EQ(std::get<Solution>(solve("min_peak", whole(chain, 1000))).peak, least);
  }
}

TEST(MinPeak, SumIsTheLeastSumOfAllSubsets) {
  std::mt19937 random(5);
  for (int k = 0; k < 400; ++k) {
    const chain::Chain chain = random_chain(random, {.most_layers = 9, .lean_tapes = k % 3 == 2});
    Bytes least(std::numeric_limits<std::int64_t>::max());
    for (unsigned kept = 0; kept < 1U << chain.length(); kept += 2) {
      least = std::min(least, sum_of(chain, kept));
    }
    EXPECT_EQ(least_sum(chain, 1, chain.length()).value, least) << chain::to_yaml(chain);
  }
}

TEST(MinPeak, RunsNoLayerMoreThanTwice) {
  const chain::Chain chain = of_nodes(std::vector<std::int64_t>(30, 2));
  const auto solution = std::get<Solution>(solve("min_peak", whole(chain, 1000)));
  EXPECT_LE(solution.recompute, Seconds(29));
  EXPECT_GT(solution.recompute, Seconds(0));
}

TEST(MinPeak, NamesItsPeakAsTheLeastBudget) {
  const chain::Chain chain = of_nodes({5, 1, 7, 2, 6, 3, 4, 1});
  const auto none = std::get<plan::Infeasible>(solve("min_peak", whole(chain, 24)));
  EXPECT_EQ(none.least_budget, Bytes(25));
  EXPECT_EQ(none.available, Bytes(24));
}

}  // namespace
}  // namespace trireme::solve
