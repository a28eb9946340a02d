// Optima of POET's published solver (ICML 2022) with CBC on chains of equal layers.
// SPDX-License-Identifier: Apache-2.0
#include "poet/graphs.h"

#include "trireme/poet/solve.h"

#include <gtest/gtest.h>

#include <optional>
#include <ostream>
#include <string>

namespace trireme::poet {
namespace {

/// Joules; nothing where no schedule exists.
struct Row {
  int layers, memory;
  std::optional<double> without_copies, cheap_copies, dear_copies;  ///< none, 0.25 J, 1 J each

  friend std::ostream& operator<<(std::ostream& out, const Row& row) {
    return out << row.layers << " layers, " << row.memory << " bytes";
  }
};

std::optional<double> least(const char* solver, const Row& row, double copy, bool may_copy) {
  const graph::Problem problem = unit_chain(row.layers, row.memory, copy);
  const Result result = solve(solver, problem, {.may_copy = may_copy});
  const auto* const solution = std::get_if<Solution>(&result);
  if (solution == nullptr) return std::nullopt;
  return solution->outcome.energy().count();
}

void expect_least(const Row& row, double copy, bool may_copy, std::optional<double> expected) {
  for (const char* const solver : {"poet", "poet_chain"}) {
    const std::optional<double> found = least(solver, row, copy, may_copy);
    const std::string where =
        concat(solver, ", ", row.layers, " layers, ", row.memory, " bytes, ", copy);
    ASSERT_EQ(found.has_value(), expected.has_value()) << where;
    if (found) {
      EXPECT_NEAR(*found, *expected, 1e-9) << where;
    }
  }
}

class PaperVectors : public testing::TestWithParam<Row> {};

TEST_P(PaperVectors, AreReached) {
  const Row& row = GetParam();
  expect_least(row, 0.25, false, row.without_copies);
  expect_least(row, 0.25, true, row.cheap_copies);
  expect_least(row, 1, true, row.dear_copies);
}

INSTANTIATE_TEST_SUITE_P(Chains, PaperVectors,
                         testing::Values(Row{3, 3, {}, {}, {}}, Row{3, 4, 9, 9, 9},
                                         Row{3, 5, 9, 9, 9}, Row{4, 4, 13, 12.5, 13},
                                         Row{6, 4, 24, 19.5, 23}, Row{6, 5, 20, 19, 20},
                                         Row{6, 6, 19, 18.5, 19}, Row{8, 4, 39, 26.5, 33},
                                         Row{8, 5, 29, 26, 29}, Row{8, 6, 27, 25.5, 27},
                                         Row{8, 7, 26, 25, 26}),
                         [](const auto& row) {
                           return concat(row.param.layers, "_layers_", row.param.memory, "_bytes");
                         });

}  // namespace
}  // namespace trireme::poet
