// Where recomputation may stop early.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/program/retape.h"

#include "trireme/program/generate.h"

#include <gtest/gtest.h>

#include <string>

namespace trireme::program {
namespace {

chain::Chain chain_with_retapes(int length) {
  chain::Chain chain{.name = "test", .input = Bytes(1), .layers = {}};
  chain::LayerCost layer{.name = "layer", .forward = Seconds(2), .backward = Seconds(3)};
  layer.retape = chain::Retape{.time = Seconds(1)};
  chain.layers.assign(static_cast<std::size_t>(length), layer);
  return chain;
}

std::string backward_text(const StageProgram& program) {
  std::string text;
  for (const Action& action : program.backward)
    text += (text.empty() ? "" : ", ") + std::string(name(action.op)) + " " +
            std::to_string(action.layer);
  return text;
}

TEST(Retape, TakesThePlaceOfEverySecondForwardOfLayersRunOneByOne) {
  const StageProgram program = with_retapes(recompute_all(2, 4), chain_with_retapes(5));

  EXPECT_EQ(backward_text(program),
            "retape 4, backward 4, retape 3, backward 3, retape 2, backward 2");
  EXPECT_EQ(program.forward, recompute_all(2, 4).forward);
}

TEST(Retape, LeavesAnOutputThatTheNextLayerReads) {
  StageProgram program = keep_all(1, 3);
  program.forward = {{Op::kForwardKeep, 1}, {Op::kForward, 2}, {Op::kForward, 3}};
  program.backward.insert(program.backward.begin(),
                          {{Op::kForwardTape, 1}, {Op::kForwardTape, 2}, {Op::kForwardTape, 3}});

  EXPECT_EQ(backward_text(with_retapes(program, chain_with_retapes(3))),
            "forward_tape 1, forward_tape 2, retape 3, backward 3, backward 2, backward 1");
}

TEST(Retape, IsOnlyForLayersThatCostLessThatWay) {
  chain::Chain chain = chain_with_retapes(3);
  chain.layers[1].retape.reset();

  EXPECT_EQ(backward_text(with_retapes(recompute_all(1, 3), chain)),
            "retape 3, backward 3, forward_tape 2, backward 2, retape 1, backward 1");
}

TEST(Retape, NeverTouchesAForwardPart) {
  const StageProgram program = keep_all(1, 3);

  EXPECT_EQ(with_retapes(program, chain_with_retapes(3)), program);
}

TEST(Retape, GoesBackToAWholeTape) {
  const StageProgram program = recompute_all(1, 4);

  EXPECT_EQ(with_whole_tapes(with_retapes(program, chain_with_retapes(4))), program);
}

}  // namespace
}  // namespace trireme::program
