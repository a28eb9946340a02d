// Recomputation that runs while a stage waits for its gradient.
// SPDX-License-Identifier: Apache-2.0
#include "stage/recompute_early.h"

#include "partition/instances.h"
#include "support/trials.h"

#include "trireme/program/retape.h"
#include "trireme/simulate/replay.h"
#include "trireme/solve/solve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <variant>

namespace trireme::partition {
namespace {

simulate::Replay sound(const chain::Chain& chain, const program::StageProgram& program) {
  simulate::Replay replay = simulate::replay(chain, program);
  EXPECT_FALSE(replay.fault) << to_text(*replay.fault);
  return replay;
}

Bytes needed(const simulate::Replay& replay, int in_flight) {
  return replay.kept * (in_flight - 1) + replay.peak;
}

TEST(RecomputeEarly, KeepsMemoryAndTimeAndKeepsNoMore) {
  std::mt19937 random(7);
  int asked = 0, earlier = 0;
  for (int trial = 0; trial < trials(2000); ++trial) {
    const int layers = between(random, 3, 8);
    const chain::Chain chain = small_chain(random, layers);
    // All layers but the last: another stage sends the gradient.
    solve::Problem problem{.chain = &chain, .first_layer = 1, .last_layer = layers - 1};
    problem.slots = 0;
    problem.budget = Bytes(between(random, 6, 40));
    const solve::Result result = solve::solve("rotor", problem);
    const auto* const solution = std::get_if<solve::Solution>(&result);
    if (solution == nullptr || solution->recompute == Seconds(0)) continue;
    const int in_flight = between(random, 1, 3);
    const simulate::Replay before = sound(chain, solution->program);
    const StageQuestion question{.layers = {1, layers - 1},
                                 .memory = needed(before, in_flight) + Bytes(between(random, 0, 8)),
                                 .in_flight = in_flight};

    const program::StageProgram moved = recompute_early(chain, question, solution->program);

    const simulate::Replay after = sound(chain, moved);
    EXPECT_LE(needed(after, in_flight), question.memory);
    EXPECT_LE(after.kept, before.kept);
    EXPECT_DOUBLE_EQ(after.time.count(), before.time.count());
    EXPECT_GE(ahead(chain, moved), ahead(chain, solution->program));
    ++asked;
    earlier += ahead(chain, moved) > ahead(chain, solution->program) ? 1 : 0;
  }
  std::cout << asked << " programs, " << earlier << " with more before the gradient\n";
  EXPECT_GE(asked, trials(400));
  EXPECT_GE(earlier, asked / 4);
}

// With unlimited memory, all recomputation runs before the gradient.
TEST(RecomputeEarly, MovesEverythingWhereMemoryAllows) {
  std::mt19937 random(8);
  for (int trial = 0; trial < trials(200); ++trial) {
    const int layers = between(random, 3, 8);
    const chain::Chain chain = small_chain(random, layers);
    const program::StageProgram all_again = program::recompute_all(1, layers - 1);

    const program::StageProgram moved =
        recompute_early(chain, {.layers = {1, layers - 1}, .memory = Bytes(1 << 20)}, all_again);

    EXPECT_DOUBLE_EQ(ahead(chain, moved).count(), sound(chain, all_again).recompute.count());
  }
}

TEST(RecomputeEarly, LeavesProgramsThatCopyAsTheyAre) {
  std::mt19937 random(9);
  const chain::Chain chain = small_chain(random, 3);
  program::StageProgram program = program::keep_all(1, 2);
  program.forward.push_back({program::Op::kOffloadTape, 1});
  program.backward.insert(program.backward.begin() + 1, {program::Op::kPrefetchTape, 1});

  EXPECT_EQ(recompute_early(chain, {.layers = {1, 2}, .memory = Bytes(1 << 20)}, program), program);
}

}  // namespace
}  // namespace trireme::partition
