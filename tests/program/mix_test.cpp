// Stages whose micro-batches do not all run the same program.
// SPDX-License-Identifier: Apache-2.0
#include "support/input_error.h"

#include "trireme/program/generate.h"
#include "trireme/schedule/named.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace trireme::program {
namespace {

std::string refusal(const Lowering& lowering) {
  return support::input_error([&] { lower(lowering); });
}

TEST(Mix, HasItsProgramsRunInTurns) {
  Lowering lowering{{recompute_all(1, 1), keep_all(2, 2)}, schedule::gpipe({2, 3})};
  lowering.mixes = {{.others = {keep_all(1, 1)}, .cycle = {0, 1}}, {}};

  const Program program = lower(lowering);

  std::vector<Op> of_first;
  for (const Action& action : program.ranks[0]) {
    if (action.layer == 1 && (is_forward(action.op) || action.op == Op::kBackward))
      of_first.push_back(action.op);
  }
  // Micro-batches 0 and 2 run again, micro-batch 1 does not.
  EXPECT_THAT(of_first, testing::ElementsAre(Op::kForwardKeep, Op::kForwardTape, Op::kForwardKeep,
                                             Op::kForwardTape, Op::kBackward, Op::kBackward,
                                             Op::kForwardTape, Op::kBackward));
}

TEST(Mix, IsRefusedWhereItIsNotOfTheStage) {
  Lowering lowering{{keep_all(1, 1), keep_all(2, 2)}, schedule::gpipe({2, 2})};

  lowering.mixes = {{}};
  EXPECT_EQ(refusal(lowering), "mixed programs of 1 stages, must be of 2 (or none)");
  lowering.mixes = {{}, {.others = {keep_all(1, 2)}, .cycle = {1}}};
  EXPECT_EQ(refusal(lowering),
            "stage 1 mixes programs of layer 2 and layers 1..2: must be of the same layers");
  lowering.mixes = {{.others = {keep_all(1, 1)}, .cycle = {0, 2}}, {}};
  EXPECT_EQ(refusal(lowering), "stage 0 has program 2 in its cycle, must be 0 to 1");
}

}  // namespace
}  // namespace trireme::program
