// Questions of the tests of stages, and the true optimum of a stage with several micro-batches in
// flight, by exhaustive search.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/simulate/replay.h"
#include "trireme/solve/exhaustive.h"
#include "trireme/solve/stage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>

namespace trireme::solve {

/// Least time over all K and all programs with (w-1) K + peak <= memory; infinity if there is none.
inline double stage_optimum(const chain::Chain& chain, const StageProblem& stage,
                            bool persistent = false) {
  double best = std::numeric_limits<double>::infinity();
  Problem problem{.chain = &chain,
                  .first_layer = stage.layers.first,
                  .last_layer = stage.layers.last,
                  .budget = {},
                  .link = {},
                  .slots = 0};
  const std::int64_t memory = stage.memory.count(), others = stage.in_flight - 1;
  // With one in flight there is no cap.
  const std::int64_t least = others == 0 ? memory : chain.output(stage.layers.first - 1).count();
  for (std::int64_t kept = least; others * kept <= memory && kept <= memory; ++kept) {
    problem.budget = Bytes(memory - others * kept);
    const auto program =
        search_fastest(problem, {.persistent = persistent, .most_kept = Bytes(kept)});
    if (program) best = std::min(best, simulate::replay(chain, *program).time.count());
  }
  return best;
}

/// Least (w-1) K + peak over all programs.
inline std::int64_t stage_least_memory(const chain::Chain& chain, const StageProblem& stage) {
  const Problem problem{.chain = &chain,
                        .first_layer = stage.layers.first,
                        .last_layer = stage.layers.last,
                        .budget = {},
                        .link = {},
                        .slots = 0};
  if (stage.in_flight == 1) {
    return simulate::replay(chain, *search_leanest(problem)).peak.count();
  }
  std::int64_t best = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t kept = chain.output(stage.layers.first - 1).count();
       (stage.in_flight - 1) * kept < best; ++kept) {
    const auto program = search_leanest(problem, {.most_kept = Bytes(kept)});
    if (!program) continue;
    const simulate::Replay replay = simulate::replay(chain, *program);
    best = std::min(best, ((stage.in_flight - 1) * replay.kept + replay.peak).count());
  }
  return best;
}

inline StageProblem stage_of(int first, int last, std::int64_t memory, int in_flight) {
  return {.layers = {first, last}, .memory = Bytes(memory), .in_flight = in_flight, .link = {}};
}

inline StageSolver exact_solver(const chain::Chain& chain, std::int64_t largest,
                                bool may_leave = true) {
  return StageSolver(chain,
                     {.largest_memory = Bytes(largest), .slots = 0, .input_may_leave = may_leave});
}

/// A solution's program, replayed, keeps what it promises.
inline void expect_honest(const chain::Chain& chain, const StageProblem& problem,
                          const StageSolution& solution) {
  const simulate::Replay replay = simulate::replay(chain, solution.program);
  ASSERT_FALSE(replay.fault) << simulate::to_text(*replay.fault);
  EXPECT_EQ(solution.program.first_layer, problem.layers.first);
  EXPECT_EQ(solution.program.last_layer, problem.layers.last);
  EXPECT_EQ(replay.forward, solution.forward);
  EXPECT_EQ(replay.backward, solution.backward);
  EXPECT_EQ(replay.recompute, solution.recompute);
  EXPECT_EQ(replay.kept, solution.kept);
  EXPECT_EQ((problem.in_flight - 1) * replay.kept + replay.peak, solution.peak);
  EXPECT_LE(solution.peak, problem.memory);
}

}  // namespace trireme::solve
