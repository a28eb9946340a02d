// What the planner promises of every plan, and small cases with known answers.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/partition/planner.h"

#include "partition/instances.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/partition/tried.h"
#include "trireme/simulate/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::partition {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int> last_layers(const plan::Plan& plan) {
  std::vector<int> ends;
  for (const plan::StagePlan& stage : plan.stages) ends.push_back(stage.program.last_layer);
  return ends;
}

plan::Plan planned(const Question& question) {
  Answer answer = partition::plan(question);
  if (const auto* infeasible = std::get_if<plan::Infeasible>(&answer))
    ADD_FAILURE() << "infeasible: " << infeasible->where;
  return std::get<plan::Plan>(std::move(answer));
}

std::string refusal(const Question& question) {
  try {
    partition::plan(question);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

/// Equal layers with f = 1, b = 2, outputs of 1 and tapes of 3 bytes.
Question equal_layers(int layers, int stages, int micro_batches, std::int64_t memory) {
  Question question;
  question.chain = solve::without_loss(solve::homogeneous(layers));
  question.platform = chain::uniform_platform(stages, Bytes(memory));
  question.stages = stages;
  question.micro_batches = micro_batches;
  question.slots = 0;
  return question;
}

/// What holds of every plan: the validator proves it within its budgets, its predictions are the
/// simulator's, and no alternative is faster.
void expect_sound(const Question& question, const plan::Plan& plan) {
  const auto fault = simulate::validate(plan::compile(plan), setting_of(question, plan));
  EXPECT_FALSE(fault) << simulate::to_text(*fault);
  const auto simulation = simulated(question, plan, simulate::Detail::kSummary);
  EXPECT_EQ(plan.step, simulation.step);
  for (std::size_t k = 0; k < plan.stages.size(); ++k) {
    if (plan.solver != "madpipe") EXPECT_EQ(plan.stages[k].rank, static_cast<int>(k));
    const auto rank = static_cast<std::size_t>(plan.stages[k].rank);
    const Bytes memory = question.platform.ranks[rank].memory;
    EXPECT_EQ(plan.stages[k].predicted.peak, simulation.ranks[rank].peak.size);
    EXPECT_TRUE(memory == Bytes(0) || simulation.ranks[rank].peak.size <= memory);
  }
  for (const plan::Alternative& other : plan.alternatives) {
    if (!other.step) continue;
    EXPECT_LE(plan.step.count(), other.step->count() * (1 + 1e-9)) << other.policy;
  }
}

TEST(Planner, KeepsEveryBudgetAndBeatsItsAlternatives) {
  std::mt19937 random(31);
  int feasible = 0;
  for (int trial = 0; trial < 120; ++trial) {
    SCOPED_TRACE(trial);
    const Question question = small_question(random, {.least_layers = 4,
                                                      .most_layers = 14,
                                                      .most_stages = 5,
                                                      .most_micro_batches = 9,
                                                      .copies = trial % 3 == 0});
    const Answer answer = partition::plan(question);
    if (const auto* plan = std::get_if<plan::Plan>(&answer)) {
      ++feasible;
      expect_sound(question, *plan);
    }
  }
  EXPECT_GE(feasible, 50);
}

TEST(Planner, NamesTheLeastBudgetOfEqualRanks) {
  std::mt19937 random(32);
  int shortages = 0;
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(trial);
    Question question = small_question(random, {.least_layers = 3, .most_layers = 8});
    question.solver = "joint";
    for (chain::RankSpec& rank : question.platform.ranks)
      rank.memory = question.platform.ranks.front().memory;
    const Answer answer = partition::plan(question);
    const auto* infeasible = std::get_if<plan::Infeasible>(&answer);
    if (infeasible == nullptr) continue;
    ++shortages;
    EXPECT_GT(infeasible->least_budget, infeasible->available);
    for (chain::RankSpec& rank : question.platform.ranks) rank.memory = infeasible->least_budget;
    EXPECT_TRUE(std::holds_alternative<plan::Plan>(partition::plan(question)));
    for (chain::RankSpec& rank : question.platform.ranks) rank.memory -= Bytes(1);
    EXPECT_FALSE(std::holds_alternative<plan::Plan>(partition::plan(question)));
  }
  EXPECT_GE(shortages, 40);
}

TEST(Planner, SaysWhatWouldMakeItFit) {
  Question question = equal_layers(12, 2, 4, 99);
  question.platform.ranks[1].memory = Bytes(4);

  const Answer answer = partition::plan(question);

  const auto* infeasible = std::get_if<plan::Infeasible>(&answer);
  ASSERT_NE(infeasible, nullptr);
  EXPECT_EQ(infeasible->rank, 1);
  EXPECT_EQ(infeasible->available, Bytes(4));
  // A backward of one layer holds its input, its tape and two gradients: 1 + 3 + 1 + 1 bytes.
  EXPECT_EQ(infeasible->least_budget, Bytes(6));
  EXPECT_THAT(infeasible->where, HasSubstr("2 B (2 bytes) more on rank 1 alone"));
}

TEST(Planner, KeepsAllWhereNoBudgetIsGiven) {
  const plan::Plan plan = planned(equal_layers(8, 4, 4, 0));

  // Stages of two layers: F = 2, B = 4; 1F1B of equal stages takes (m + p - 1)(F + B).
  EXPECT_EQ(plan.step, Seconds((4 + 4 - 1) * 6));
  EXPECT_EQ(plan.recompute, Seconds(0));
  EXPECT_THAT(last_layers(plan), ElementsAre(2, 4, 6, 8));
}

TEST(Planner, RecomputesOnTheFirstStagesOnly) {
  // Enough for keep_all with one or two micro-batches in flight, not with four.
  const plan::Plan plan = planned(equal_layers(16, 4, 16, 34));

  EXPECT_GT(plan.recompute, Seconds(0));
  const program::StageProgram& last = plan.stages.back().program;
  EXPECT_EQ(last, program::keep_all(last.first_layer, last.last_layer));
  const program::StageProgram& first = plan.stages.front().program;
  EXPECT_NE(first, program::keep_all(first.first_layer, first.last_layer));
}

TEST(Planner, GivesTheFasterRankMoreLayers) {
  Question question = equal_layers(8, 2, 16, 0);
  question.platform.ranks[1].speed = 3;

  EXPECT_THAT(last_layers(planned(question)), ElementsAre(2, 8));
}

TEST(Planner, GivesTheSmallerRankFewerLayers) {
  Question question = equal_layers(8, 2, 16, 0);
  question.platform.ranks[0].memory = Bytes(10);

  const plan::Plan plan = planned(question);

  EXPECT_LT(plan.stages[0].program.last_layer, 4);
  expect_sound(question, plan);
}

TEST(Planner, CutsWhereLittleHasToBeSent) {
  Question question = equal_layers(8, 2, 8, 0);
  for (int i = 1; i <= 8; ++i)
    question.chain.layers[static_cast<std::size_t>(i - 1)].output = Bytes(100);
  question.chain.layers[4].output = Bytes(1);
  question.chain.layers[4].backward_transient = question.chain.layers[5].backward_transient =
      Bytes(100);
  question.platform.default_link = {BytesPerSecond(5), Seconds(0)};

  EXPECT_THAT(last_layers(planned(question)), ElementsAre(5, 8));
}

TEST(Planner, CountsChannelBuffers) {
  Question question = equal_layers(4, 2, 1, 0);
  question.solver = "keep_all";
  const Bytes without = planned(question).stages[0].predicted.peak;
  question.platform.channel_buffers = 2;

  // Two buffers each for the output and its gradient, of one byte.
  EXPECT_EQ(planned(question).stages[0].predicted.peak, without + Bytes(4));
}

TEST(Planner, HoldsEveryMicroBatchWithGPipe) {
  Question question = equal_layers(4, 2, 6, 0);
  question.schedule = "gpipe";

  const plan::Plan plan = planned(question);

  for (const plan::StagePlan& stage : plan.stages) EXPECT_EQ(stage.in_flight, 6);
  EXPECT_EQ(plan.schedule, "gpipe");
}

TEST(Planner, LeavesOutWhatTiedWeightsShare) {
  Question question = equal_layers(4, 1, 4, 0);
  for (chain::LayerCost& layer : question.chain.layers) layer.parameters = Bytes(10);
  question.shared_bytes = [](const LayerRuns& runs) {
    return runs == LayerRuns{{1, 4}} ? Bytes(10) : Bytes(0);
  };

  EXPECT_EQ(planned(question).stages[0].static_bytes, Bytes(30));
  question.stages = 2;
  question.platform = chain::uniform_platform(2, Bytes(0));
  EXPECT_EQ(planned(question).stages[0].static_bytes, Bytes(20));
}

TEST(Planner, KeepsTheUsersCut) {
  Question question = equal_layers(8, 3, 4, 60);
  question.cut = std::vector<int>{1, 3};

  EXPECT_THAT(last_layers(planned(question)), ElementsAre(1, 3, 8));
}

class NamedSolver : public testing::TestWithParam<std::string> {};

TEST_P(NamedSolver, MakesTheProgramOfEveryStage) {
  Question question = equal_layers(8, 2, 4, 40);
  question.solver = GetParam();

  const plan::Plan plan = planned(question);

  EXPECT_EQ(plan.solver, GetParam());
  const auto simulation = simulated(question, plan, simulate::Detail::kSummary);
  for (const simulate::RankResult& rank : simulation.ranks) EXPECT_LE(rank.peak.size, Bytes(40));
}

INSTANTIATE_TEST_SUITE_P(All, NamedSolver,
                         testing::Values("keep_all", "recompute_all", "periodic 2", "sqrt",
                                         "revolve", "min_peak", "rotor", "rotor_free", "capuchin",
                                         "exhaustive", "joint", "adapipe", "uniform 2"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });

TEST(Planner, RecomputesEverythingWhereThatIsAsked) {
  Question question = equal_layers(4, 2, 2, 0);
  question.solver = "recompute_all";

  const plan::Plan plan = planned(question);

  for (const plan::StagePlan& stage : plan.stages)
    EXPECT_EQ(stage.program,
              program::recompute_all(stage.program.first_layer, stage.program.last_layer));
}

TEST(Planner, PlansOneStageJointlyToo) {
  Question question = equal_layers(8, 1, 3, 16);
  const Seconds best = planned(question).step;
  question.solver = "joint";

  EXPECT_EQ(planned(question).step, best);
  question.solver = "uniform 4";
  EXPECT_GT(planned(question).step, best);
}

TEST(Planner, MovesBytesWhereThatIsFaster) {
  // Far too little memory to keep everything, and a link that is fast enough to move most of it.
  Question question = equal_layers(12, 2, 12, 24);
  for (chain::RankSpec& rank : question.platform.ranks) {
    rank.host = Bytes(1000);
    rank.out = rank.in = BytesPerSecond(2);
  }

  const plan::Plan plan = planned(question);

  expect_sound(question, plan);
  EXPECT_GT(plan.stages[0].predicted.offloaded, Bytes(0));
  for (chain::RankSpec& rank : question.platform.ranks) rank.out = rank.in = BytesPerSecond(0);
  EXPECT_LT(plan.step, planned(question).step);
}

const plan::Alternative* alternative(const plan::Plan& plan, const std::string& begin) {
  for (const plan::Alternative& other : plan.alternatives)
    if (other.policy.starts_with(begin)) return &other;
  return nullptr;
}

Question with_links(Question question, double rate) {
  for (chain::RankSpec& rank : question.platform.ranks) {
    rank.host = Bytes(100'000);
    rank.out = rank.in = BytesPerSecond(rate);
  }
  return question;
}

// Eight stages: seven or eight in flight at first, more than the two messages that a stream takes.
TEST(Planner, MovesBytesWithManyInFlight) {
  const Question question = with_links(equal_layers(32, 8, 24, 28), 2);

  const plan::Plan plan = planned(question);

  expect_sound(question, plan);
  EXPECT_GT(plan.stages[0].predicted.offloaded, Bytes(0));
  EXPECT_LT(plan.step, planned(with_links(question, 0)).step);
}

TEST(Planner, OffloadAloneRunsNothingTwice) {
  Question question = with_links(equal_layers(12, 2, 12, 24), 3);
  question.solver = "offload";

  const plan::Plan plan = planned(question);

  EXPECT_EQ(plan.recompute, Seconds(0));
  EXPECT_GT(plan.stages[0].predicted.offloaded, Bytes(0));
  const auto fault = simulate::validate(plan::compile(plan), setting_of(question, plan));
  EXPECT_FALSE(fault) << simulate::to_text(*fault);
  question.solver = "auto";
  const plan::Plan open = planned(question);
  ASSERT_NE(alternative(open, "offload, best cut"), nullptr);
  EXPECT_LE(alternative(open, "offload, best cut")->step, plan.step);
  EXPECT_EQ(alternative(planned(with_links(question, 0)), "offload"), nullptr);
}

TEST(Planner, NamesTheBestUniformPlan) {
  const Question question = equal_layers(16, 4, 16, 34);
  const plan::Plan plan = planned(question);
  const auto* best = alternative(plan, "best uniform");
  ASSERT_NE(best, nullptr);
  ASSERT_TRUE(best->step);
  Question asked = question;
  for (const char* const kind : {"uniform ", "block "}) {
    for (int size = 1; size <= 8; ++size) {
      asked.solver = concat(kind, size);
      const Answer answer = partition::plan(asked);
      if (const auto* other = std::get_if<plan::Plan>(&answer)) {
        EXPECT_LE(best->step->count(), other->step.count() * (1 + 1e-9)) << asked.solver;
      }
    }
  }
}

// Stage 0 has two layers of equal forwards and must run one of them again. The second can run while
// the gradient is under way, the first cannot. 122 is the best step over all cuts with the fastest
// memory-persistent programs, by exhaustive search (every_cut.h).
TEST(Planner, LooksAtWhatHidesWhereTimesAreEqual) {
  Question question;
  chain::Chain& chain = question.chain;
  chain = {.name = "tie", .input = Bytes(1), .layers = {}};
  const auto add = [&](chain::LayerCost layer, int forward, int tape, int backward,
                       int parameters) {
    layer.forward_transient = Bytes(forward);
    layer.tape_transient = Bytes(tape);
    layer.backward_transient = Bytes(backward);
    layer.parameters = Bytes(parameters);
    chain.layers.push_back(layer);
  };
  add(solve::layer(7, 1, 1, 4), 0, 0, 2, 0);
  add(solve::layer(7, 3, 2, 6), 0, 1, 3, 1);
  add(solve::layer(5, 5, 3, 4), 2, 0, 4, 1);
  add(solve::layer(7, 8, 4, 6), 1, 0, 4, 2);
  add(solve::layer(2, 1, 1, 1), 2, 1, 7, 1);
  add(solve::layer(6, 9, 2, 8), 1, 2, 3, 0);
  question.platform = chain::uniform_platform(2, Bytes(23));
  question.platform.ranks[1].memory = Bytes(25);
  question.platform.ranks[1].speed = 2;
  question.stages = 2;
  question.micro_batches = 4;
  question.slots = 0;

  EXPECT_LE(planned(question).step, Seconds(122));
}

TEST(Planner, MovesNothingWhereTheOuterTierHasNoRoom) {
  Question question = equal_layers(12, 2, 12, 24);
  const Seconds without = planned(question).step;
  for (chain::RankSpec& rank : question.platform.ranks) rank.out = rank.in = BytesPerSecond(2);

  EXPECT_EQ(planned(question).step, without);
}

TEST(Planner, FindsTheSamePlanAgain) {
  std::mt19937 random(33);
  for (int trial = 0; trial < 10; ++trial) {
    const Question question = small_question(random, {.most_layers = 10});
    EXPECT_EQ(partition::plan(question), partition::plan(question));
  }
}

TEST(Planner, RefusesWhatCannotBe) {
  Question question = equal_layers(4, 2, 2, 0);
  question.solver = "jonit";
  EXPECT_THAT(refusal(question), HasSubstr("did you mean 'joint'?"));
  question.solver = "auto";
  question.cut = std::vector<int>{4};
  EXPECT_THAT(refusal(question), HasSubstr("within 1..3"));
  question.cut = std::vector<int>{1, 2};
  EXPECT_THAT(refusal(question), HasSubstr("must have 1"));
  question.cut.reset();
  question.stages = 5;
  EXPECT_THAT(refusal(question), HasSubstr("every stage needs one; use 1 to 4"));
  question.stages = 3;
  EXPECT_THAT(refusal(question), HasSubstr("the platform has 2 ranks"));
}

}  // namespace
}  // namespace trireme::partition
