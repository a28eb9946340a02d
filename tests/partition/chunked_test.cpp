// Several chunks on every rank: named schedules, and orders that are searched.
// SPDX-License-Identifier: Apache-2.0
#include "judge/judge.h"
#include "partition/planned.h"
#include "placement/chunk_cut.h"
#include "support/input_error.h"
#include "support/trials.h"

#include "trireme/io/node.h"
#include "trireme/partition/tried.h"
#include "trireme/schedule/named.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <optional>
#include <random>
#include <string>
#include <variant>

namespace trireme::partition {
namespace {

/// Layers whose forwards and both parts of whose backwards take 1, and whose tapes stay until the
/// second part.
Question thirds(int layers, int ranks, int micro_batches, std::int64_t memory,
                const std::string& schedule = "auto") {
  Question question = equal_layers(layers, ranks, micro_batches, memory);
  for (chain::LayerCost& layer : question.chain.layers)
    layer.split = {Seconds(1), layer.tape, layer.backward_transient, Bytes(0)};
  set_schedule(question, schedule);
  return question;
}

Question with(Question question, const std::string& schedule) {
  set_schedule(question, schedule);
  return question;
}

std::optional<plan::Plan> plan_or_none(const Question& question) {
  Answer answer = plan(question);
  auto* const found = std::get_if<plan::Plan>(&answer);
  return found != nullptr ? std::optional(std::move(*found)) : std::nullopt;
}

// Qi et al. 2024 (Zero Bubble): ranks wait for the first forward to reach them, through one of two
// chunks of each rank before, and never again.
TEST(Chunked, ZbVTakesWhatItsPaperSays) {
  for (const int ranks : {2, 3, 4}) {
    const Question question = thirds(2 * ranks, ranks, 2 * ranks, 0, "zb-v");
    const plan::Plan plan = planned(question);
    expect_sound(question, plan);
    EXPECT_EQ(plan.schedule, "zb-v");
    EXPECT_EQ(plan::placement(plan), schedule::v_shaped(ranks, 2));
    EXPECT_EQ(plan.step, Seconds(6 * 2 * ranks + ranks - 1));
  }
}

TEST(Chunked, EveryNamedScheduleIsPlanned) {
  for (const std::string& name : schedule::schedule_names()) {
    const Question question = thirds(8, 2, 5, 0, name);
    const plan::Plan plan = planned(question);
    expect_sound(question, plan);
    EXPECT_EQ(plan.schedule, name);
    EXPECT_EQ(plan::read_plan(io::parse(plan::to_json(plan), "p.json")), plan) << name;
  }
}

// Without second parts of backwards zb-h1 is 1F1B, whose order has to be in the plan file all the
// same.
TEST(Chunked, NamedSchedulesWithoutSplitBackwardsAreReadBack) {
  for (const std::string& name : schedule::schedule_names()) {
    Question question = thirds(8, 2, 5, 0, name);
    question.splits_backward = false;
    const plan::Plan plan = planned(question);
    expect_sound(question, plan);
    EXPECT_EQ(plan::read_plan(io::parse(plan::to_json(plan), "p.json")), plan) << name;
  }
}

TEST(Chunked, SearchedOrdersReachTheirBoundOnEqualLayers) {
  const Question question = thirds(16, 4, 8, 0);
  const plan::Plan plan = planned(question);
  expect_sound(question, plan);
  EXPECT_EQ(plan.schedule, "searched");
  // Four chunks of one layer on each rank: three forwards of a layer, then work alone.
  EXPECT_EQ(plan.step, Seconds(3 + 8 * 12));
  EXPECT_EQ(plan.order_bound, plan.step);
  EXPECT_EQ(plan::read_plan(io::parse(plan::to_json(plan), "p.json")), plan);
}

/// Layers of unlike times and sizes.
Question unlike(std::mt19937& random) {
  const auto roll = [&](int least, int most) {
    return std::uniform_int_distribution(least, most)(random);
  };
  const int ranks = roll(2, 3);
  Question question = thirds(roll(2 * ranks, 4 * ranks + 2), ranks, roll(1, 8), roll(40, 300));
  for (chain::LayerCost& layer : question.chain.layers) {
    layer.forward = Seconds(roll(1, 4));
    layer.backward = Seconds(roll(2, 8));
    layer.tape = Bytes(roll(2, 8));
    layer.split = {layer.backward / roll(2, 4), Bytes(roll(1, 2)),
                   layer.backward_transient + Bytes(2), Bytes(1)};
  }
  return question;
}

void expect_no_slower_than_by_name(const Question& question, const plan::Plan& found) {
  for (const schedule::NamedSchedule& named : schedule::named_schedules()) {
    const Tried other = try_to(std::string(named.name),
                               [&] { return plan(with(question, std::string(named.name))); });
    const bool exists =
        (named.name != "dualpipe-v" || question.micro_batches >= 2 * question.stages) &&
        (named.name != "looped-bfs" || question.micro_batches < 3 * question.stages);
    EXPECT_TRUE(other.refused.empty() || !exists) << named.name << ": " << other.refused;
    if (other.plan() != nullptr) {
      EXPECT_LE(found.step, other.plan()->step * (1 + 1e-9)) << named.name;
    }
  }
}

TEST(Chunked, PlansAreSoundAndNoSlowerThanOneChunkAndThanEveryNamedSchedule) {
  std::mt19937 random(20261129);
  int chunked = 0, plans = 0;
  for (int trial = 0; trial < trials(24); ++trial) {
    const Question question = unlike(random);
    const std::optional<plan::Plan> found = plan_or_none(question);
    const std::optional<plan::Plan> one = plan_or_none(with(question, "1f1b"));
    ASSERT_EQ(found.has_value(), one.has_value() || found.has_value()) << trial;
    if (!found) continue;
    ++plans;
    expect_sound(question, *found);
    if (one) {
      EXPECT_LE(found->step, one->step) << trial;
    }
    chunked += schedule::shares_ranks(plan::placement(*found)) ? 1 : 0;
    const testing::ScopedTrace trace(__FILE__, __LINE__, trial);
    expect_no_slower_than_by_name(question, *found);
    if (trial < 2) {
      EXPECT_EQ(plan::to_json(*plan_or_none(question)), plan::to_json(*found)) << trial;
    }
  }
  std::printf("%d plans, %d with several chunks on every rank\n", plans, chunked);
  EXPECT_GT(chunked, trials(5));
}

/// Costs of a small GPT as they were measured on a CPU, in milliseconds and in quarters of an
/// output.
Question small_gpt(int ranks, int micro_batches) {
  Question question = thirds(26, ranks, micro_batches, 0);
  std::vector<chain::LayerCost>& layers = question.chain.layers;
  const auto layer = [](double forward, double backward, std::array<int, 5> bytes, double again,
                        std::array<int, 3> lean) {
    return chain::LayerCost{
        .name = "layer",
        .forward = Seconds(forward),
        .backward = Seconds(backward),
        .output = Bytes(bytes[0]),
        .tape = Bytes(bytes[1]),
        .forward_transient = Bytes(bytes[2]),
        .tape_transient = Bytes(bytes[3]),
        .backward_transient = Bytes(bytes[4]),
        .retape = chain::Retape{Seconds(again), Bytes(lean[0]), Bytes(lean[1]), Bytes(lean[2])}};
  };
  question.chain.input = Bytes(0);
  layers.assign(1, layer(2, 1, {4, 5, 9, 8, 4}, 2, {1, 12, 8}));
  for (int block = 0; block < 12; ++block) {
    layers.push_back(layer(23, 35, {4, 21, 13, 8, 12}, 19, {17, 12, 16}));
    layers.push_back(layer(25, 40, {4, 21, 32, 15, 34}, 20, {17, 19, 38}));
  }
  layers.push_back(layer(1, 7, {0, 5, 15, 9, 11}, 1, {5, 9, 11}));
  return question;
}

// Programs may take more than is counted while they are chosen: then they are chosen again for
// less, instead of there being no plan.
TEST(Chunked, ANamedScheduleFitsInEveryBudgetFromItsLeastOn) {
  for (const char* const schedule : {"zb-v", "interleaved", "dualpipe-v"}) {
    const Question open = with(small_gpt(2, 8), schedule);
    const auto within = [&](Bytes memory) {
      Question question = open;
      for (chain::RankSpec& rank : question.platform.ranks) rank.memory = memory;
      return plan(question);
    };
    const Answer none = within(Bytes(1));
    const Bytes least = std::get<plan::Infeasible>(none).least_budget;
    for (int more = 0; more < 80; ++more)
      EXPECT_TRUE(std::holds_alternative<plan::Plan>(within(least + Bytes(more))))
          << schedule << " " << least.count() << " + " << more;
  }
}

// Orders of several chunks may gain by offload where those of one chunk lose by it.
TEST(Chunked, PlansWithOffloadedStateAreNoSlowerThanThoseOfEveryNamedSchedule) {
  std::mt19937 random(20261130);
  const auto roll = [&](int least, int most) {
    return std::uniform_int_distribution(least, most)(random);
  };
  int plans = 0, offloaded = 0;
  for (int trial = 0; trial < trials(24); ++trial) {
    Question question = unlike(random);
    question.optimizer_copies = std::nullopt;
    for (chain::LayerCost& layer : question.chain.layers) layer.optimizer = Bytes(roll(1, 6));
    for (chain::RankSpec& rank : question.platform.ranks) {
      rank.memory = Bytes(roll(30, 90));
      rank.host = Bytes(1000);
      rank.out = rank.in = BytesPerSecond(roll(2, 20));
    }
    const std::optional<plan::Plan> found = plan_or_none(question);
    if (!found) continue;
    ++plans;
    expect_sound(question, *found);
    offloaded += has_offloaded_state(*found) ? 1 : 0;
    const testing::ScopedTrace trace(__FILE__, __LINE__, trial);
    expect_no_slower_than_by_name(question, *found);
  }
  std::printf("%d plans, %d with offloaded state\n", plans, offloaded);
  EXPECT_GT(offloaded, 0);
}

// Too few layers for two chunks on every rank, of unlike times. The oracle: plans without chunks,
// madpipe's among them, whose special rank has the order of a list schedule.
TEST(Chunked, OneRankMayHaveSeveralChunksWhereNotAllCan) {
  std::mt19937 random(1);
  int count = 0, faster = 0;
  double gain = 0;
  for (int k = 0; k < trials(160); ++k) {
    Question question =
        small_question(random, {.least_layers = 3, .most_layers = 5, .least_stages = 2});
    if (question.chain.length() >= 2 * question.stages) continue;
    question.micro_batches += 3;
    const auto without = plan_or_none(with(question, "1f1b"));
    const auto plan = plan_or_none(with(question, "auto"));
    if (!without) continue;
    ASSERT_TRUE(plan) << k;
    expect_sound(question, *plan);
    EXPECT_LE(plan->step, without->step) << k;
    ++count;
    if (plan->schedule != "searched") continue;
    EXPECT_GE(plan->step.count(), plan->order_bound.count() * (1 - 1e-12)) << k;
    EXPECT_TRUE(schedule::shares_ranks(plan::placement(*plan))) << k;
    gain += 1 - plan->step / without->step;
    ++faster;
  }
  std::cout << faster << " of " << count << " are faster, by " << 100 * gain / faster
            << " % in the mean\n";
  EXPECT_GT(30 * faster, count);
}

TEST(Chunked, AutoPlansWithoutChunksWhereThereCanBeNone) {
  for (const Question& question : {thirds(3, 3, 4, 0), thirds(5, 4, 4, 0), thirds(4, 2, 1700, 0)}) {
    const plan::Plan plan = planned(question);
    EXPECT_LE(plan.step, planned(with(question, "1f1b")).step);
    expect_sound(question, plan);
  }
}

TEST(Chunked, ChunksOffloadWhatTheyKeep) {
  for (const std::string schedule : {"interleaved", "zb-v"}) {
    const Question without = thirds(12, 3, 6, 16, schedule);
    const Question with_tier = with_links(without, 4);
    const plan::Plan plan = planned(with_tier);
    expect_sound(with_tier, plan);
    EXPECT_TRUE(schedule::shares_ranks(plan::placement(plan))) << schedule;
    Bytes moved;
    for (const plan::StagePlan& stage : plan.stages) moved += stage.predicted.offloaded;
    EXPECT_GT(moved, Bytes(0)) << schedule;
    EXPECT_LT(plan.step, planned(without).step) << schedule;
  }
}

TEST(Chunked, CutIsOfRanksAndNotOfChunks) {
  // The last layer takes three times as long as the others: rank 0, which has it, gets few others.
  Question question = thirds(16, 4, 8, 0);
  question.chain.layers.back().forward = Seconds(9);
  const StageRoom room(question);
  const schedule::Placement placement = schedule::v_shaped(4, 2);
  const Cut cut = balanced_chunks(room, placement);
  std::vector<double> load(4);
  int before = 0;
  for (std::size_t chunk = 0; chunk < cut.size(); ++chunk) {
    for (int layer = before + 1; layer <= cut[chunk]; ++layer)
      load[static_cast<std::size_t>(placement[chunk])] += layer == 16 ? 11 : 3;
    before = cut[chunk];
  }
  EXPECT_EQ(before, 16);
  EXPECT_THAT(load, testing::Each(testing::Le(15)));  // 56 in all; layers of 3
}

// The rank of the first layer, which has ten times the weights of others, also has the last layers.
TEST(Chunked, RanksWithLessRoomGetFewerLayers) {
  for (const std::string schedule : {"v-min", "zb-v"}) {
    SCOPED_TRACE(schedule);
    std::vector<int> layers;
    for (std::int64_t memory = 160; memory > 20; --memory) {
      Question question = thirds(12, 2, 4, memory, schedule);
      for (chain::LayerCost& layer : question.chain.layers)
        layer.parameters = layer.frozen = Bytes(4);
      question.chain.layers.front().parameters = question.chain.layers.front().frozen = Bytes(40);
      const std::optional<plan::Plan> plan = plan_or_none(question);
      if (!plan) break;
      expect_sound(question, *plan);
      layers.assign(2, 0);
      for (const plan::StagePlan& stage : plan->stages)
        layers[static_cast<std::size_t>(stage.rank)] +=
            stage.program.last_layer - stage.program.first_layer + 1;
    }
    ASSERT_EQ(layers.size(), 2);
    EXPECT_LT(layers[0], layers[1]);
  }
}

TEST(Chunked, RefusalsSayWhatToDo) {
  const auto refusal = [](const Question& question) {
    return support::input_error([&] { plan(question); });
  };
  using testing::HasSubstr;
  Question question = thirds(8, 2, 4, 0, "zb-v");
  question.cut = std::vector{4};
  EXPECT_EQ(refusal(question),
            "cut: is not combined with the schedule zb-v; leave it out, or use 1f1b");
  question = thirds(8, 2, 4, 0, "zb-v");
  question.solver = "madpipe";
  EXPECT_EQ(refusal(question),
            "solver 'madpipe': is not combined with the schedule zb-v; use 'joint', or 1f1b");
  EXPECT_THAT(refusal(thirds(3, 2, 4, 0, "zb-v")),
              HasSubstr("zb-v has 2 chunks on each of 2 ranks, but the chain has 3 layers"));
  EXPECT_THAT(refusal(thirds(8, 2, 3, 0, "dualpipe-v")), HasSubstr("needs at least 4"));
  EXPECT_THAT(refusal(thirds(16, 2, 40, 0, "looped-bfs")), HasSubstr("would wait in a circle"));
  EXPECT_THAT(refusal(thirds(8, 2, 4, 0, "zb-w")), HasSubstr("found 'zb-w', expected"));
}

TEST(Chunked, WhereNothingFitsTheRankIsNamed) {
  const Answer answer = plan(thirds(16, 4, 8, 9, "zb-v"));
  const auto* const lack = std::get_if<plan::Infeasible>(&answer);
  ASSERT_NE(lack, nullptr);
  EXPECT_EQ(lack->available, Bytes(9));
  EXPECT_GT(lack->needed, Bytes(9));
  EXPECT_THAT(lack->where, testing::HasSubstr("together, with the programs that need least"));
  EXPECT_TRUE(plan_or_none(thirds(16, 4, 8, lack->least_budget.count(), "zb-v")));
}

}  // namespace
}  // namespace trireme::partition
