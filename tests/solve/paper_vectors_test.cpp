// Known results on small chains. Sources: the unit tests of rotor as merged into a branch of
// PyTorch by its authors (the two chains of "OwnTests"), and values computed by running that code
// and by exhaustive search (the others).
//
// SPDX-License-Identifier: Apache-2.0
#include "solve/chains.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace trireme::solve {
namespace {

using Vector = std::vector<std::pair<std::int64_t, double>>;  // budget, time

void expect_times(std::string_view solver, const chain::Chain& chain, const Vector& expected) {
  for (const auto& [budget, time] : expected) {
    for (const int slots : {0, 500}) {
      EXPECT_EQ(time_of(solve(solver, whole(chain, budget, slots))), time)
          << solver << " with " << budget << " bytes, " << slots << " slots";
    }
  }
}

std::int64_t held_at_loss(const chain::Chain& chain, std::int64_t budget) {
  return std::get<Solution>(solve("rotor", whole(chain, budget))).kept.count();
}

// Actions as the original counts them: the loss is one operation, not two.
std::size_t operations(const Result& result) {
  const auto& program = std::get<Solution>(result).program;
  return program.forward.size() + program.backward.size() - 1;
}

PaperChain chain_c() {
  return {.forward = {1, 5, 3, 9, 2, 10, 8, 6, 4, 7},
          .backward = std::vector<double>(10, 2),
          .sizes = {1, 2, 1, 1, 2, 3, 2, 3, 2, 1, 1},
          .saved = {5, 3, 1, 2, 4, 5, 6, 3, 2, 1},
          .forward_extra = {1, 2, 3, 4, 5, 4, 3, 2, 1, 0},
          .backward_extra = {5, 4, 3, 2, 1, 2, 1, 3, 5, 4}};
}

TEST(Rotor, AgreesWithItsOwnTestsOnEqualLayers) {
  const chain::Chain chain = with_loss(homogeneous(10));
  expect_times("rotor", chain,
               {{6, -1},
                {7, 75},
                {8, 50},
                {9, 45},
                {10, 42},
                {11, 40},
                {12, 39},
                {13, 38},
                {15, 37},
                {20, 35},
                {31, 31},
                {33, 30},
                {50, 30}});
}

TEST(Rotor, NeedsAsManyOperationsAsItsOwnTestsOnEqualLayers) {
  const chain::Chain chain = with_loss(homogeneous(10));
  const std::vector<std::pair<std::int64_t, std::size_t>> expected{
      {7, 66},  {8, 41},  {9, 36},  {10, 33}, {11, 31}, {12, 30},
      {13, 29}, {15, 28}, {20, 26}, {31, 22}, {33, 21}};
  for (const auto& [budget, count] : expected) {
    EXPECT_EQ(operations(solve("rotor", whole(chain, budget))), count) << budget;
  }
}

TEST(Rotor, AgreesWithItsOwnTestsOnUnequalLayers) {
  expect_times("rotor", with_loss(chain_c()),
               {{15, -1},
                {16, 178},
                {17, 147},
                {18, 133},
                {19, 121},
                {20, 113},
                {21, 110},
                {22, 104},
                {23, 101},
                {25, 96},
                {26, 93},
                {29, 91},
                {30, 88},
                {32, 83},
                {36, 78},
                {40, 75}});
}

TEST(Rotor, NeedsAsManyOperationsAsItsOwnTestsOnUnequalLayers) {
  const chain::Chain chain = with_loss(chain_c());
  EXPECT_EQ(operations(solve("rotor", whole(chain, 16))), 43U);
  EXPECT_EQ(operations(solve("rotor", whole(chain, 26))), 25U);
}

TEST(Rotor, HoldsAtTheLossWhatItsOwnTestsHold) {
  const chain::Chain chain = with_loss(chain_c());
  const std::vector<std::pair<std::int64_t, std::int64_t>> expected{
      {16, 9},  {17, 8},  {18, 11}, {19, 12}, {20, 13}, {21, 14}, {22, 15}, {23, 16},
      {25, 18}, {26, 19}, {29, 22}, {30, 23}, {32, 25}, {36, 29}, {40, 33}};
  for (const auto& [budget, held] : expected) {
    EXPECT_EQ(held_at_loss(chain, budget), held) << budget;
  }
}

TEST(Rotor, TakesItemsOfNoBytes) {
  PaperChain paper = homogeneous(10);
  paper.sizes[5] = 0;
  paper.saved[4] = 0;
  const chain::Chain chain = with_loss(paper);
  expect_times("rotor", chain, {{6, -1}, {7, 51}, {8, 45}});
  EXPECT_EQ(operations(solve("rotor", whole(chain, 7))), 42U);
  EXPECT_EQ(operations(solve("rotor", whole(chain, 8))), 36U);
}

TEST(Rotor, AgreesWithTheOriginalOnChainA) {
  const chain::Chain chain = with_loss(chain_a());
  expect_times("rotor", chain,
               {{9, -1},
                {10, 34},
                {11, 32},
                {12, 31},
                {13, 31},
                {14, 29},
                {15, 29},
                {16, 27},
                {17, 27},
                {18, 26},
                {30, 26}});
  const std::vector<std::pair<std::int64_t, std::int64_t>> held{
      {10, 6}, {11, 6}, {12, 9}, {13, 9}, {14, 10}, {15, 10}, {16, 12}, {17, 12}, {18, 15}};
  for (const auto& [budget, bytes] : held) EXPECT_EQ(held_at_loss(chain, budget), bytes) << budget;
}

TEST(Rotor, FindsTheOriginalsScheduleOnChainA) {
  const chain::Chain chain = with_loss(chain_a());
  const auto program = std::get<Solution>(solve("rotor", whole(chain, 10))).program;
  using program::Op;
  const std::vector<program::Action> forward{{Op::kForwardKeep, 1},
                                             {Op::kForward, 2},
                                             {Op::kForwardKeep, 3},
                                             {Op::kForwardTape, 4},
                                             {Op::kForwardTape, 5}};
  const std::vector<program::Action> backward{
      {Op::kBackward, 5}, {Op::kBackward, 4},    {Op::kForwardTape, 3},
      {Op::kBackward, 3}, {Op::kForwardKeep, 1}, {Op::kForwardTape, 2},
      {Op::kBackward, 2}, {Op::kForwardTape, 1}, {Op::kBackward, 1}};
  EXPECT_EQ(program.forward, forward);
  EXPECT_EQ(program.backward, backward);
}

TEST(Rotor, AgreesWithTheOriginalOnChainB) {
  const chain::Chain chain = with_loss(chain_b());
  expect_times("rotor", chain,
               {{24, -1}, {25, 95}, {28, 94}, {29, 89}, {31, 88}, {33, 83}, {37, 79}});
  const std::vector<std::pair<std::int64_t, std::int64_t>> held{{25, 21}, {28, 24}, {29, 26},
                                                                {31, 28}, {33, 30}, {37, 34}};
  for (const auto& [budget, bytes] : held) EXPECT_EQ(held_at_loss(chain, budget), bytes) << budget;
}

// The published thresholds use the wrong maxima; these are the smallest chains that show it.
TEST(Rotor, FindsWhatTheOriginalsThresholdsForbid) {
  const chain::Chain chain = with_loss({.forward = {5, 7},
                                        .backward = {6, 4},
                                        .sizes = {1, 1, 2},
                                        .saved = {7, 2},
                                        .forward_extra = {0, 8},
                                        .backward_extra = {1, 0}});
  expect_times("rotor", chain, {{18, 22}});
}

TEST(Rotor, KeepsTheBudgetWhereTheOriginalExceedsIt) {
  const chain::Chain chain = with_loss({.forward = {3, 7, 6, 1},
                                        .backward = {2, 6, 8, 7},
                                        .sizes = {1, 1, 3, 3, 1},
                                        .saved = {4, 3, 5, 7},
                                        .forward_extra = {8, 1, 0, 0},
                                        .backward_extra = {1, 1, 0, 0}});
  expect_times("rotor", chain, {{15, 69}});
}

TEST(Rotor, IsSlowerThanSchedulesThatAreNotPersistent) {
  const chain::Chain chain = with_loss({.forward = {9, 2, 4, 3},
                                        .backward = {5, 9, 0, 9},
                                        .sizes = {4, 1, 4, 4, 4},
                                        .saved = {1, 4, 8, 7},
                                        .forward_extra = {1, 1, 1, 0},
                                        .backward_extra = {2, 0, 2, 0}});
  expect_times("rotor", chain, {{26, 67}});
  expect_times("exhaustive persistent", chain, {{26, 67}});
  // 58 if the input of a tape must stay, less if it may leave.
  EXPECT_LE(time_of(solve("exhaustive", whole(chain, 26))), 58);
}

TEST(RotorFree, ReachesTheExhaustiveOptimumOnChainsAAndB) {
  expect_times("rotor_free", with_loss(chain_a()),
               {{9, -1},
                {10, 34},
                {11, 32},
                {12, 29},
                {13, 29},
                {14, 28},
                {15, 28},
                {16, 27},
                {17, 27},
                {18, 26}});
  expect_times("rotor_free", with_loss(chain_b()),
               {{24, -1}, {25, 92}, {26, 92}, {27, 87}, {28, 87}, {29, 83}, {36, 83}, {37, 79}});
  expect_times("exhaustive", with_loss(chain_b()), {{25, 92}, {27, 87}, {29, 83}, {37, 79}});
}

}  // namespace
}  // namespace trireme::solve
