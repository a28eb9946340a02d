// Special cases with a formula: revolve (Griewank and Walther 2000) and mixed restart-or-tape
// reversal of unit steps (the recursion of the package checkpoint_schedules).
//
// SPDX-License-Identifier: Apache-2.0
#include "solve/chains.h"

#include "trireme/core/error.h"
#include "trireme/solve/revolve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace trireme::solve {
namespace {

// T(n,s) = min over k of k + T(k,s) + T(n-k,s-1); T(n,1) = n(n-1)/2.
std::vector<std::vector<std::int64_t>> revolve_by_recursion(int steps, int slots) {
  std::vector<std::vector<std::int64_t>> table(
      static_cast<std::size_t>(slots) + 1,
      std::vector<std::int64_t>(static_cast<std::size_t>(steps) + 1));
  for (std::size_t s = 1; s < table.size(); ++s) {
    for (std::size_t n = 1; n < table[s].size(); ++n) {
      const auto count = static_cast<std::int64_t>(n);
      std::int64_t least = count * (count - 1) / 2;
      for (std::size_t k = 1; s > 1 && k < n; ++k) {
        least = std::min(least, static_cast<std::int64_t>(k) + table[s][k] + table[s - 1][n - k]);
      }
      table[s][n] = least;
    }
  }
  return table;
}

// P(n,s) = n if n <= s + 1; n(n+1)/2 - 1 if s = 1; else the least of 1 + P(n-1,s-1) and, over
// i >= 2, i + P(i,s) + P(n-i,s-1).
std::int64_t mixed(int steps, int slots) {
  if (steps <= slots + 1) return steps;
  if (slots == 1) return steps * (steps + 1) / 2 - 1;
  std::int64_t least = 1 + mixed(steps - 1, slots - 1);
  for (int i = 2; i < steps; ++i) {
    least = std::min(least, i + mixed(i, slots) + mixed(steps - i, slots - 1));
  }
  return least;
}

std::int64_t forwards(const program::StageProgram& program) {
  std::int64_t count = 0;
  for (const auto* list : {&program.forward, &program.backward}) {
    count += std::count_if(list->begin(), list->end(), [](const program::Action& action) {
      return action.op != program::Op::kBackward;
    });
  }
  return count;
}

// Equal layers of one second with tapes that never pay, and a loss.
chain::Chain tape_shy(int layers, std::int64_t tape) {
  PaperChain paper = homogeneous(layers);
  paper.backward.assign(paper.backward.size(), 0);
  paper.saved.assign(paper.saved.size(), tape);
  return with_loss(paper);
}

TEST(Revolve, CountsAsTheBinomialFormulaSays) {
  const std::vector<std::pair<std::pair<int, int>, std::int64_t>> expected{
      {{10, 1}, 45},   {{10, 2}, 20},    {{10, 3}, 15},     {{10, 4}, 14},  {{10, 5}, 13},
      {{20, 2}, 65},   {{20, 3}, 45},    {{20, 4}, 39},     {{50, 3}, 180}, {{50, 5}, 122},
      {{100, 5}, 316}, {{100, 10}, 222}, {{1000, 10}, 3636}};
  for (const auto& [what, count] : expected) {
    EXPECT_EQ(revolve_forwards(what.first, what.second), count)
        << what.first << " steps, " << what.second << " slots";
  }
}

TEST(Revolve, CountsAsTheRecursionSays) {
  const auto table = revolve_by_recursion(59, 11);
  for (int s = 1; s <= 11; ++s) {
    for (int n = 1; n <= 59; ++n) {
      EXPECT_EQ(revolve_forwards(n, s),
                table[static_cast<std::size_t>(s)][static_cast<std::size_t>(n)])
          << n << ' ' << s;
    }
  }
}

TEST(Revolve, ProgramHasAsManyForwardsAsItCounts) {
  for (int n = 1; n <= 40; ++n) {
    for (int s = 1; s <= n; ++s) {
      EXPECT_EQ(forwards(revolve_program({1, n}, s)), n + revolve_forwards(n, s)) << n << ' ' << s;
    }
  }
}

TEST(Revolve, NeedsOneSlotMoreForEveryOutputThatItKeeps) {
  // Every output 1 byte: s slots, the working output, the tape and a gradient.
  const chain::Chain chain = tape_shy(20, 100);
  for (int s = 1; s <= 10; ++s) {
    const double time = time_of(solve("revolve", whole(chain, 103 + s)));
    // The chain's loss is one more step, which takes no time.
    EXPECT_GE(time - 20, revolve_forwards(20, s)) << s;
    EXPECT_LE(time - 20, revolve_forwards(21, s)) << s;
  }
}

TEST(Rotor, ReducesToRevolveWhereTapesAreTooLarge) {
  for (const int layers : {5, 10, 16, 20}) {
    const chain::Chain chain = tape_shy(layers, 100);
    for (int slots = 1; slots <= layers; ++slots) {
      EXPECT_EQ(time_of(solve("rotor", whole(chain, 103 + slots))) - layers,
                static_cast<double>(revolve_forwards(layers, slots)))
          << layers << ' ' << slots;
    }
  }
}

TEST(Rotor, ReducesToMixedReversalWhereTapesWeighAsOutputs) {
  const std::vector<std::int64_t> six{20, 11, 9, 8, 6}, ten{54, 26, 19, 17, 15, 14, 13, 12, 10};
  for (const int layers : {2, 3, 6, 8, 10}) {
    const chain::Chain chain = tape_shy(layers, 1);
    for (int slots = 1; slots < layers; ++slots) {
      const double time = time_of(solve("rotor", whole(chain, slots + 4)));
      EXPECT_EQ(time, static_cast<double>(mixed(layers, slots))) << layers << ' ' << slots;
      const auto index = static_cast<std::size_t>(slots) - 1;
      if (layers == 6) {
        EXPECT_EQ(time, static_cast<double>(six[index]));
      }
      if (layers == 10) {
        EXPECT_EQ(time, static_cast<double>(ten[index]));
      }
    }
  }
}

}  // namespace
}  // namespace trireme::solve
