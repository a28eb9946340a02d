// The orders of module `program`, until its makers go: those of `schedule` are the same.
// SPDX-License-Identifier: Apache-2.0
#include "support/input_error.h"

#include "trireme/core/text.h"
#include "trireme/program/generate.h"
#include "trireme/program/split_backward.h"
#include "trireme/schedule/named.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace trireme::schedule {
namespace {

namespace before = trireme::program;
using before::Op;
using Deferred = std::vector<std::optional<int>>;

/// Passes of a program of one layer a stage, which must have the micro-batches that their place in
/// the list implies.
Order order_of(const before::Program& program) {
  const std::map<Op, Pass::Kind> kinds{{Op::kForward, Pass::Kind::kForward},
                                       {Op::kForwardTape, Pass::Kind::kForward},
                                       {Op::kBackward, Pass::Kind::kBackward},
                                       {Op::kBackwardInput, Pass::Kind::kBackwardInput},
                                       {Op::kBackwardWeights, Pass::Kind::kBackwardWeights}};
  Order order;
  for (const std::vector<before::Action>& actions : program.ranks) {
    std::vector<Pass> passes;
    std::vector<int> micro_batches;
    for (const before::Action& action : actions) {
      const auto kind = kinds.find(action.op);
      if (kind == kinds.end()) continue;
      passes.push_back({.kind = kind->second, .chunk = action.layer - 1});
      micro_batches.push_back(action.micro_batch);
    }
    EXPECT_EQ(micro_batches, micro_batches_of(passes));
    order.push_back(passes);
  }
  return order;
}

Order lowered(const before::PassOrder& order, const Deferred& deferred = {}) {
  before::Lowering lowering;
  for (std::size_t k = 0; k < order.size(); ++k)
    lowering.stages.push_back(before::keep_all(static_cast<int>(k) + 1, static_cast<int>(k) + 1));
  lowering.order = order;
  return order_of(before::with_split_backward(before::lower(lowering), deferred));
}

Order lowered_forwards(const Placement& placement, int micro_batches) {
  before::Lowering lowering;
  const int stages = static_cast<int>(placement.size());
  for (int layer = 1; layer <= stages; ++layer)
    lowering.stages.push_back(before::evaluate(layer, layer));
  lowering.order = before::forwards_only({stages, micro_batches});
  lowering.rank_of_stage = placement;
  lowering.end = before::StepEnd::kNone;
  return order_of(before::lower(lowering));
}

std::vector<int> usual(int stages, int micro_batches) {
  std::vector<int> in_flight;
  for (int k = 0; k < stages; ++k) in_flight.push_back(usual_in_flight(stages, k, micro_batches));
  return in_flight;
}

TEST(SameAsProgram, OneFOneBAndGPipe) {
  for (int stages = 1; stages <= 8; ++stages) {
    for (int m = 1; m <= 20; ++m) {
      const std::string what = concat(stages, " stages, ", m, " micro-batches");
      EXPECT_EQ(lowered(before::one_f_one_b({stages, m})), one_f_one_b(usual(stages, m), m))
          << what;
      EXPECT_EQ(lowered(before::gpipe({stages, m})), gpipe(stages, m)) << what;
      for (int k = 0; k < stages; ++k) {
        EXPECT_EQ(before::usual_in_flight("1f1b", stages, k, m), usual_in_flight(stages, k, m));
      }
    }
  }
}

TEST(SameAsProgram, ZbH1) {
  for (int stages = 1; stages <= 6; ++stages) {
    for (int m = 1; m <= 12; ++m) {
      Deferred deferred;
      for (int k = 0; k < stages; ++k) deferred.emplace_back(k);
      EXPECT_EQ(lowered(before::one_f_one_b({stages, m}), deferred),
                schedule::order_of(*find_schedule("zb-h1"), stages, 1, m))
          << stages << " stages, " << m << " micro-batches";
    }
  }
}

TEST(SameAsProgram, OtherNumbersInFlightAndDeferred) {
  for (int m = 1; m <= 7; ++m) {
    for (int a = 1; a <= 5; ++a) {
      for (int b = 1; b <= a; ++b) {
        for (int c = 1; c <= b; ++c) {
          EXPECT_EQ(lowered(before::one_f_one_b_with({a, b, c}, m)), one_f_one_b({a, b, c}, m));
          for (int n = 0; n <= 4; ++n) {
            const Deferred deferred{n, std::nullopt, 4 - n};
            EXPECT_EQ(lowered(before::one_f_one_b_with({a, b, c}, m), deferred),
                      one_f_one_b({a, b, c}, m, deferred))
                << a << b << c << ", " << m << " micro-batches, deferred by " << n;
          }
        }
      }
    }
  }
}

TEST(SameAsProgram, ForwardsOnly) {
  const auto expect_same = [](const Placement& placement) {
    for (int m = 1; m <= 10; ++m) {
      EXPECT_EQ(lowered_forwards(placement, m), forwards_only(placement, m))
          << testing::PrintToString(placement) << ", " << m << " micro-batches";
    }
  };
  for (int ranks = 1; ranks <= 5; ++ranks) {
    for (int per_rank = 1; per_rank <= 4; ++per_rank) {
      expect_same(round_robin(ranks, per_rank));
      expect_same(v_shaped(ranks, per_rank));
    }
  }
  Placement any{0, 0, 1, 1, 2};
  do expect_same(any);
  while (std::next_permutation(any.begin(), any.end()));
}

TEST(SameAsProgram, Refusals) {
  const std::vector<std::vector<int>> numbers{{}, {0}, {1, 2}, {3, 1, 2}, {2, 0}, {-1}};
  for (const std::vector<int>& in_flight : numbers) {
    for (const int m : {-1, 0, 3}) {
      const std::string text =
          support::input_error([&] { return before::one_f_one_b_with(in_flight, m); });
      EXPECT_EQ(support::input_error([&] { return one_f_one_b(in_flight, m); }), text);
    }
  }
  EXPECT_EQ(support::input_error([] { return gpipe(0, 3); }), support::input_error([] {
              return before::gpipe({0, 3});
            }));
  EXPECT_EQ(support::input_error([] {
              return forwards_only({0, 1}, 0);
            }),
            support::input_error([] {
              return before::forwards_only({2, 0});
            }));
}

}  // namespace
}  // namespace trireme::schedule
