// Names and text forms.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/program/action.h"

#include "trireme/core/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::program {
namespace {

using testing::HasSubstr;

template <class Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

std::string refusal(std::string_view text) {
  return message_of([&] { parse_action(text); });
}

TEST(Action, ReadsAloud) {
  EXPECT_EQ(to_text(Action{Op::kBackward, 3, 2}), "2:backward 3");
  EXPECT_EQ(to_text(Action{Op::kReduceGradients}), "0:reduce_gradients 0");
}

TEST(Action, EveryOperationSurvivesItsText) {
  for (const std::string& word : op_names()) {
    const auto op = op_named(word);
    ASSERT_TRUE(op.has_value()) << word;
    EXPECT_EQ(name(*op), word);
    const Action action{*op, 41, 7};
    EXPECT_EQ(parse_action(to_text(action)), action);
  }
  EXPECT_EQ(op_names().size(), 47U);
  EXPECT_EQ(op_names().front(), "forward");
  EXPECT_EQ(op_names().back(), "await_state");
}

TEST(Action, UnknownNameIsNoOperation) {
  EXPECT_EQ(op_named("backwards"), std::nullopt);
}

TEST(ParseAction, SuggestsTheNearestOperation) {
  EXPECT_THAT(refusal("2:bakward 3"),
              HasSubstr("no operation 'bakward' (did you mean 'backward'?)"));
}

TEST(ParseAction, SaysWhatWasExpected) {
  for (const std::string_view bad : {"", "backward", "2:backward", "backward 3", "2 backward:3"}) {
    EXPECT_THAT(refusal(bad), HasSubstr("expected MICRO-BATCH:OPERATION LAYER")) << bad;
  }
}

TEST(ParseAction, RefusesNumbersThatAreNotWhole) {
  EXPECT_THAT(refusal("2:backward x"), HasSubstr("its layer is not a whole number"));
  EXPECT_THAT(refusal("2:backward -3"), HasSubstr("its layer is not a whole number"));
  EXPECT_THAT(refusal("2:backward 3 "), HasSubstr("its layer is not a whole number"));
  EXPECT_THAT(refusal("2:backward 99999999999"), HasSubstr("its layer is not a whole number"));
  EXPECT_THAT(refusal("1.5:backward 3"), HasSubstr("its micro-batch is not a whole number"));
}

TEST(ProgramText, ComesBackTheSame) {
  Program program{2, 3, {0, 0, 1}, {{}, {}, {}}};
  program.ranks[0] = {{Op::kLoadInput, 0, 0}, {Op::kForwardTape, 1, 2}};
  program.ranks[2] = {{Op::kStep}};

  const std::string text = to_text(program);

  EXPECT_EQ(text,
            "layers: 2\n"
            "micro_batches: 3\n"
            "ranks: 3\n"
            "rank_of_layer: 0 0 1\n"
            "0 | 0:load_input 0\n"
            "0 | 2:forward_tape 1\n"
            "2 | 0:step 0\n");
  EXPECT_EQ(parse_program(text), program);
}

TEST(ProgramText, MayCarryCommentsAndBlankLines) {
  const Program program = parse_program(
      "# by hand\n\nlayers: 1\r\nmicro_batches: 1\nranks: 1\nrank_of_layer: 0 0\n"
      "  0|0:forward 1   # untaped\n");
  EXPECT_EQ(program, (Program{1, 1, {0, 0}, {{{Op::kForward, 1, 0}}}}));
}

TEST(ProgramText, ErrorsNameTheLine) {
  const std::string head = "layers: 1\nmicro_batches: 1\nranks: 2\nrank_of_layer: 0 0\n";
  const auto refused = [](const std::string& text) {
    return message_of([&] { parse_program(text); });
  };
  EXPECT_THAT(refused(head + "2 | 0:forward 1\n"),
              HasSubstr("line 5 of a program: there is no rank 2"));
  EXPECT_THAT(refused(head + "1 | 0:foward 1\n"), HasSubstr("did you mean 'forward'?"));
  EXPECT_THAT(refused(head + "0:forward\n"), HasSubstr("'0' is not a line of the head"));
  EXPECT_THAT(refused("layer: 1\n"), HasSubstr("(did you mean 'layers'?)"));
  EXPECT_THAT(refused("layers: one\n"), HasSubstr("layers is 'one', must be a whole number"));
  EXPECT_THAT(refused("layers: 1\nlayers: 1\n"),
              HasSubstr("line 2 of a program: 'layers' appears twice"));
  EXPECT_THAT(refused("layers: 1\n0 | 0:forward 1\n"), HasSubstr("before the head is complete"));
  EXPECT_THAT(refused("layers: 1\n"), HasSubstr("without the line 'micro_batches: ...'"));
  EXPECT_THAT(refused(head + "forward\n"), HasSubstr("expected 'RANK | ACTION'"));
}

}  // namespace
}  // namespace trireme::program
