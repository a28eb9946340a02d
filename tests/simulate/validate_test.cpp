// The validator against programs by hand that are right or wrong in one place.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/simulate/validate.h"

#include "simulate/validated.h"

#include "trireme/schedule/named.h"
#include "trireme/schedule/slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::simulate {
namespace {

using program::Action;
using program::Op;
using program::Program;
using simulate::verdict;
using testing::HasSubstr;

TEST(Validate, CountsOptimizerStateInTheOffloadTier) {
  const chain::Chain chain = even_chain(1);
  chain::Platform platform = open_platform(1);
  program::Lowering lowering;
  lowering.stages.push_back(program::keep_all(1, 1));
  lowering.order = schedule::one_f_one_b({1, 1});
  const Program program = program::lower(lowering);
  Setting setting{.chain = &chain, .platform = &platform, .static_bytes = {}};
  setting.offloaded_optimizer = {platform.ranks[0].host};
  EXPECT_FALSE(validate(program, setting));
  platform.ranks[0].host -= Bytes(1);
  const auto fault = validate(program, setting);
  ASSERT_TRUE(fault);
  EXPECT_THAT(fault->reason, testing::HasSubstr("in the offload tier, which has 1073741823"));
  setting.offloaded_optimizer = {};
  EXPECT_FALSE(validate(program, setting));
}

/// Two ranks, two layers, by hand.
constexpr const char* kHead = "layers: 2\nmicro_batches: 1\nranks: 2\nrank_of_layer: 0 0 1\n";
constexpr const char* kLower =
    "0 | 0:load_input 0\n0 | 0:forward_tape 1\n0 | 0:send_output 1\n"
    "0 | 0:receive_gradient 1\n0 | 0:backward 1\n";
constexpr const char* kUpper =
    "1 | 0:load_target 2\n1 | 0:receive_input 1\n1 | 0:forward_tape 2\n1 | 0:read_loss 2\n"
    "1 | 0:backward 2\n1 | 0:send_gradient 1\n";

/// `text` with the first `what` replaced.
std::string with(std::string text, const std::string& what, const std::string& instead) {
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), instead);
}

std::string verdict(const std::string& text, int capacity = 2) {
  return verdict(program::parse_program(text), even_chain(2), open_platform(2), capacity);
}

const std::string kGood = std::string(kHead) + kLower + kUpper;

TEST(Validate, AcceptsAProgramByHand) {
  EXPECT_EQ(verdict(kGood), "proven");
}

TEST(Validate, NamesRankActionAndReason) {
  EXPECT_EQ(verdict(with(kGood, "1 | 0:forward_tape 2\n", "1 | 0:forward 2\n")),
            "rank 1, action 4 (0:backward 2): tape 2 is not held");
}

TEST(Validate, PrintsTheCircleOfAdeadlock) {
  const std::string text =
      with(with(kGood, "0 | 0:receive_gradient 1\n", ""), "0 | 0:forward_tape 1\n",
           "0 | 0:receive_gradient 1\n0 | 0:forward_tape 1\n");
  EXPECT_EQ(verdict(text),
            "rank 0, action 1 (0:receive_gradient 1): ranks wait for one another in a circle: rank "
            "0 at action 1 (0:receive_gradient 1) for rank 1, rank 1 at action 1 (0:receive_input "
            "1) for rank 0");
}

TEST(Validate, FindsWhoNeverSendsOrReceives) {
  EXPECT_EQ(verdict(with(kGood, "1 | 0:send_gradient 1\n", "")),
            "rank 0, action 3 (0:receive_gradient 1): waits for rank 1, which has ended and never "
            "sends the gradient of x[1] of micro-batch 0");
  EXPECT_EQ(verdict(with(kGood, "0 | 0:receive_gradient 1\n0 | 0:backward 1\n", "")),
            "rank 1, action 5 (0:send_gradient 1): rank 0 never receives the gradient of x[1] of "
            "micro-batch 0");
}

TEST(Validate, DeadlockMayDependOnTheRoomInTheChannel) {
  // The first stage sends four outputs before it takes a gradient; the second wants to send two
  // gradients first.
  program::Lowering lowering{{program::keep_all(1, 1), program::keep_all(2, 2)},
                             {schedule::gpipe({2, 4})[0], schedule::one_f_one_b({2, 4})[1]}};
  const Program program = program::lower(lowering);
  EXPECT_EQ(verdict(program, even_chain(2), open_platform(2), 2), "proven");
  const std::string stuck = verdict(program, even_chain(2), open_platform(2), 1);
  EXPECT_THAT(stuck, HasSubstr("in a circle"));
  EXPECT_THAT(stuck, HasSubstr("(3:send_output 1) for rank 1"));
  EXPECT_THAT(stuck, HasSubstr("(1:send_gradient 1) for rank 0"));
}

// The first stage's tape is offloaded after every output; the last one's bytes are still read by
// the message for which the second stage has not posted a receive, since it waits to send a
// gradient.
TEST(Validate, BytesOfAnOutputStayUntilItsMessageIsGone) {
  const auto program_with = [](const std::string& then, int in_flight) {
    program::Lowering lowering{
        {stage(1, 1, "forward_tape 1", "backward 1"), program::keep_all(2, 2)},
        {schedule::one_f_one_b_with({in_flight, 1}, 8)}};
    Program program = program::lower(lowering);
    std::vector<program::Action> actions;
    for (const program::Action& action : program.ranks[0]) {
      if (action.op == program::Op::kReceiveGradient && !then.empty())
        actions.push_back({program::Op::kPrefetchTape, 1, action.micro_batch});
      actions.push_back(action);
      if (action.op == program::Op::kSendOutput && !then.empty())
        actions.push_back({program::Op::kOffloadTape, 1, action.micro_batch});
    }
    program.ranks[0] = actions;
    return program;
  };
  EXPECT_EQ(verdict(program_with("", 5), even_chain(2), open_platform(2)), "proven");
  EXPECT_EQ(verdict(program_with("offload", 4), even_chain(2), open_platform(2)), "proven");
  const std::string stuck = verdict(program_with("offload", 5), even_chain(2), open_platform(2));
  EXPECT_THAT(stuck, HasSubstr("(4:offload_tape 1): ranks wait for one another in a circle"));
  EXPECT_THAT(stuck, HasSubstr("(2:send_gradient 1) for rank 0"));
}

// Rank 0 sends the outputs of three micro-batches before it takes what comes back. Rank 1's first
// answer, of an unknown shape, has no receive posted before: its bytes may not be offloaded until
// then.
TEST(Validate, BytesOfAFirstOutputStayUntilItsReceiverComesToIt) {
  const auto verdict_of = [](bool leaves, const std::string& first_rank) {
    program::Lowering lowering{
        .stages = {program::keep_all(1, 1),
                   leaves ? stage(2, 2, "forward_tape 2", "backward 2") : program::keep_all(2, 2),
                   program::keep_all(3, 3)},
        .order = {schedule::parse_passes(first_rank, 99), schedule::gpipe({3, 4})[1]},
        .placement = {0, 1, 0}};
    Program program = program::lower(lowering);
    std::vector<program::Action> actions;
    for (const program::Action& action : program.ranks[1]) {
      if (leaves && action.op == program::Op::kReceiveGradient)
        actions.push_back({program::Op::kPrefetchTape, 2, action.micro_batch});
      actions.push_back(action);
      if (leaves && action.op == program::Op::kSendOutput)
        actions.push_back({program::Op::kOffloadTape, 2, action.micro_batch});
    }
    program.ranks[1] = actions;
    return verdict(program, even_chain(3), open_platform(2));
  };
  const std::string all_first = "F0*4 F2*4 B2*4 B0*4", in_turn = "F0*2 F2 F0 F2 F0 F2*2 B2*4 B0*4";
  EXPECT_EQ(verdict_of(false, all_first), "proven");
  EXPECT_EQ(verdict_of(true, in_turn), "proven");
  EXPECT_THAT(verdict_of(true, all_first), HasSubstr("(0:offload_tape 2) for rank 0"));
}

TEST(Validate, OutputsAndGradientsAreStreamsOfTheirOwn) {
  // Stages 0 and 2 on rank 0: outputs of stage 0 and gradients of stage 2 both go from 0 to 1.
  program::Lowering lowering{
      {program::keep_all(1, 1), program::keep_all(2, 2), program::keep_all(3, 3)},
      schedule::on_ranks(schedule::one_f_one_b({3, 4}), {0, 1, 0}),
      {0, 1, 0}};
  EXPECT_EQ(verdict(program::lower(lowering), even_chain(3), open_platform(2), 1), "proven");
}

TEST(Validate, MessagesComeInTheOrderOfSending) {
  program::Lowering lowering{{program::evaluate(1, 1), program::evaluate(2, 2)},
                             schedule::forwards_only(schedule::one_each(2), 2)};
  lowering.end = program::StepEnd::kNone;
  Program program = program::lower(lowering);
  for (Action& action : program.ranks[1]) action.micro_batch = 1 - action.micro_batch;
  EXPECT_EQ(verdict(program, even_chain(2), open_platform(2)),
            "rank 1, action 1 (1:receive_input 1): the next message from rank 0 is the output x[1] "
            "of micro-batch 0 (its action 2)");
}

TEST(Validate, RefusesActionsThatCannotBeHere) {
  const auto with_action = [](const std::string& line) { return verdict(kGood + line + "\n"); };
  EXPECT_THAT(with_action("0 | 0:forward 2"), HasSubstr("layer 2 is on rank 1"));
  EXPECT_THAT(with_action("0 | 0:forward 3"), HasSubstr("there is no layer 3 of 1..2"));
  EXPECT_THAT(with_action("0 | 1:forward 1"), HasSubstr("there is no micro-batch 1 of 1"));
  EXPECT_THAT(with_action("0 | 0:drop 3"), HasSubstr("there is no output 3 of 0..2"));
  EXPECT_THAT(with_action("0 | 0:load_input 1"), HasSubstr("load_input must be of layer 0"));
  EXPECT_THAT(with_action("1 | 0:load_input 0"), HasSubstr("layer 1 is on rank 0"));
  EXPECT_THAT(with_action("1 | 0:read_loss 1"), HasSubstr("read_loss must be of layer 2"));
  EXPECT_THAT(with_action("1 | 0:send_output 1"), HasSubstr("layer 1 is on rank 0"));
  EXPECT_THAT(with_action("0 | 0:send_output 2"), HasSubstr("passes between no two layers"));
  EXPECT_THAT(with_action("0 | 0:clip 1"), HasSubstr("clip must be of layer 0"));
  EXPECT_THAT(with_action("1 | 0:offload 0"), HasSubstr("output 0 is not in 1..2"));
}

TEST(Validate, RefusesHeadsThatDoNotFit) {
  const chain::Platform two = open_platform(2);
  Program program = program::parse_program(kGood);
  EXPECT_EQ(verdict(program, even_chain(3), two), "a program of 2 layers for a chain of 3");
  EXPECT_EQ(verdict(program, even_chain(2), open_platform(1)),
            "a program for 2 ranks on a platform of 1");
  program.rank_of_layer = {0, 0, 5};
  EXPECT_EQ(verdict(program, even_chain(2), two), "layer 2 is on rank 5 of 2");
  program.rank_of_layer = {1, 0, 1};
  EXPECT_THAT(verdict(program, even_chain(2), two), HasSubstr("the input is loaded on rank 1"));
  program.rank_of_layer = {0, 0};
  EXPECT_THAT(verdict(program, even_chain(2), two), HasSubstr("must have 3"));
}

TEST(Validate, WantsEveryMicroBatchThroughEverything) {
  EXPECT_EQ(verdict(with(kGood, "micro_batches: 1", "micro_batches: 2")),
            "rank 0: micro-batch 1 never runs forward through layer 1");
  const std::string no_backward = with(with(kGood, kUpper, ""), "ranks: 2", "ranks: 1");
  EXPECT_EQ(verdict(program::parse_program(
                        "layers: 1\nmicro_batches: 1\nranks: 1\nrank_of_layer: 0 0\n"
                        "0 | 0:load_input 0\n0 | 0:load_target 1\n0 | 0:forward_tape 1\n"
                        "0 | 0:read_loss 1\n"),
                    even_chain(1), open_platform(1)),
            "rank 0: x[0] of micro-batch 0 is never freed");
}

TEST(Validate, RunsABackwardOnce) {
  const std::string pass =
      "0 | 0:load_input 0\n0 | 0:load_target 1\n0 | 0:forward_tape 1\n0 | 0:read_loss 1\n"
      "0 | 0:backward 1\n";
  const std::string head = "layers: 1\nmicro_batches: 1\nranks: 1\nrank_of_layer: 0 0\n";
  const auto judged = [](const std::string& text) {
    return verdict(program::parse_program(text), even_chain(1), open_platform(1));
  };
  EXPECT_EQ(judged(head + pass), "proven");
  EXPECT_THAT(judged(head + pass + pass),
              HasSubstr("action 8 (0:read_loss 1): the loss of this micro-batch was read already"));
}

TEST(Validate, WantsTheStepsEndEverywhereOrNowhere) {
  const std::string end0 = "0 | 0:reduce_gradients 0\n0 | 0:clip 0\n0 | 0:step 0\n";
  const std::string end1 = "1 | 0:reduce_gradients 0\n1 | 0:clip 0\n1 | 0:step 0\n";
  EXPECT_EQ(verdict(kGood + end0 + end1), "proven");
  EXPECT_THAT(verdict(kGood + end0), HasSubstr("rank 1: reduce_gradients, clip, step are missing"));
  EXPECT_THAT(verdict(kGood + end0 + end1 + "1 | 0:step 0\n"), HasSubstr("in this order"));
  EXPECT_THAT(verdict(std::string(kHead) + "0 | 0:step 0\n" + kLower + end0 + kUpper + end1),
              HasSubstr("rank 0, action 0 (0:step 0): a step ends with"));
}

TEST(Validate, CountsStaticBytesAndChannelBuffers) {
  const chain::Chain chain = even_chain(2);
  chain::Platform platform = open_platform(2);
  platform.channel_buffers = 1.5;
  const Program program = program::parse_program(kGood);
  Setting setting{&chain, &platform, {Bytes(1000), Bytes(2000)}};
  // x[1] and its gradient, one and a half times.
  EXPECT_EQ(channel_bytes(setting, program, 0), Bytes(30));
  // Rank 0: x[0], tape 1, gradient of x[1], transient 13 of the backward.
  platform.ranks[0].memory = Bytes(1000 + 30 + 10 + 100 + 10 + 13);
  EXPECT_EQ(validate(program, setting), std::nullopt);
  platform.ranks[0].memory -= Bytes(1);
  const auto fault = validate(program, setting);
  ASSERT_TRUE(fault.has_value());
  EXPECT_EQ(to_text(*fault),
            "rank 0, action 4 (0:backward 1): needs 1163 bytes (1.14 KiB), the budget is 1162 "
            "(1.13 KiB)");
}

TEST(Validate, BoundsTheOffloadTier) {
  const chain::Chain chain = even_chain(1);
  chain::Platform platform = open_platform(1);
  const Program program = program::lower(
      {{stage(1, 1, "forward_tape 1, offload_tape 1", "prefetch_tape 1, backward 1")},
       schedule::one_f_one_b({1, 1})});
  platform.ranks[0].host = Bytes(60);
  platform.ranks[0].disk = Bytes(40);
  EXPECT_EQ(verdict(program, chain, platform), "proven");
  platform.ranks[0].disk = Bytes(39);
  EXPECT_EQ(
      verdict(program, chain, platform),
      "rank 0, action 4 (0:offload_tape 1): needs 100 bytes in the offload tier, which has 99");
  platform.ranks[0].out = BytesPerSecond(0);
  EXPECT_THAT(verdict(program, chain, platform), HasSubstr("there is no copy lane"));
}

// A prefetched value has a copy in both tiers until it was read.
TEST(Validate, CountsTheOffloadTierUntilWhatComesBackIsRead) {
  const Program program = program::lower(
      {{stage(1, 3, "forward_tape 1, forward_tape 2, offload_tape 1, forward_tape 3",
              "prefetch_tape 1, offload_tape 2, prefetch_tape 2, backward 3, backward 2, "
              "backward 1")},
       schedule::one_f_one_b({1, 1})});
  chain::Platform platform = open_platform(1);
  platform.ranks[0].host = Bytes(200);
  EXPECT_EQ(verdict(program, even_chain(3), platform), "proven");
  platform.ranks[0].host = Bytes(199);
  EXPECT_THAT(verdict(program, even_chain(3), platform),
              HasSubstr("offload_tape 2): needs 200 bytes in the offload tier, which has 199"));
}

TEST(Validate, RefusesSizesThatItCannotCountWith) {
  const auto verdict_with = [](int micro_batches, double buffers) {
    chain::Chain chain = even_chain(1);
    chain.layers[0].tape = Bytes(std::int64_t{1} << 50);
    chain::Platform platform = open_platform(1);
    platform.channel_buffers = buffers;
    chain.layers[0].output = Bytes(std::int64_t{1} << (buffers > 0 ? 52 : 10));
    return verdict(program::lower({{program::keep_all(1, 1)}, schedule::gpipe({1, micro_batches})}),
                   chain, platform);
  };
  EXPECT_EQ(verdict_with(1000, 0), "proven");
  EXPECT_THAT(verdict_with(2048, 0), HasSubstr("may hold 2.00"));
  EXPECT_THAT(verdict_with(1, 1000), HasSubstr("EiB, must be less than 2"));
}

TEST(Validate, CopiesStandInOrder) {
  const auto judged = [](const char* forward, const char* backward) {
    const Program program =
        program::lower({{stage(1, 1, forward, backward)}, schedule::one_f_one_b({1, 1})});
    return verdict(program, even_chain(1), open_platform(1));
  };
  EXPECT_THAT(judged("prefetch_tape 1, forward_tape 1", "backward 1"),
              HasSubstr("tape 1 is not offloaded"));
  EXPECT_THAT(judged("forward_tape 1, offload_tape 1", "backward 1"),
              HasSubstr("tape 1 is offloaded"));
  EXPECT_THAT(judged("forward_tape 1, offload 0", "backward 1"), HasSubstr("x[0] is offloaded"));
}

}  // namespace
}  // namespace trireme::simulate
