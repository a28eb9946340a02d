// SPDX-License-Identifier: Apache-2.0
#include "trireme/report/run_page.h"

#include "report/samples.h"
#include "report/well_formed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>
#include <vector>

namespace trireme::report {
namespace {

using program::Op;
using simulate::Event;
using simulate::Lane;
using simulate::Simulation;
using testing::HasSubstr;
using testing::Not;

/// Two ranks, two micro-batches, links that take time: predicted 9 s and a bit.
struct TwoRanks {
  chain::Chain chain = two_layers();
  plan::Plan plan = two_stages(2);
  Simulation predicted;

  TwoRanks() {
    chain::Platform platform = chain::uniform_platform(2, Bytes(0));
    platform.default_link = {.rate = BytesPerSecond(100), .latency = Seconds(0)};
    predicted = timeline(plan, chain, platform);
  }
};

/// The step with all times doubled.
Simulation twice(Simulation step) {
  step.step = step.step * 2.0;
  for (Event& event : step.events) {
    event.begin = event.begin * 2.0;
    event.end = event.end * 2.0;
  }
  for (simulate::RankResult& rank : step.ranks) {
    rank.busy = rank.busy * 2.0;
    rank.end = rank.end * 2.0;
    rank.peak.size = rank.peak.size + Bytes(4);
    rank.peak.time = rank.peak.time * 2.0;
    for (simulate::MemoryPoint& point : rank.curve) point.time = point.time * 2.0;
  }
  return step;
}

TEST(RunPage, IsWellFormedAndAlone) {
  const TwoRanks run;
  const Simulation measured = twice(run.predicted);

  const std::string page = run_page({.name = "a<b",
                                     .plan = run.plan,
                                     .chain = run.chain,
                                     .predicted = &run.predicted,
                                     .measured = &measured,
                                     .facts = {{"loss", "<nan>"}}});

  EXPECT_EQ(markup_fault(page), "");
  EXPECT_EQ(outside_of(page), "");
  EXPECT_THAT(page, HasSubstr("Run of a&lt;b"));
  EXPECT_THAT(page, HasSubstr("<dt>loss</dt><dd>&lt;nan&gt;</dd>"));
}

/// A page of a run that took twice as long as predicted.
std::string page_of_twice() {
  const TwoRanks run;
  const Simulation measured = twice(run.predicted);
  return run_page({.name = "twice",
                   .plan = run.plan,
                   .chain = run.chain,
                   .predicted = &run.predicted,
                   .measured = &measured});
}

TEST(RunPage, PutsThePredictionBelowTheMeasurement) {
  const std::string page = page_of_twice();

  // 9 s of compute (Narayanan et al. 2021: (m + p - 1)(f + b)) and two messages of 0.1 s in its
  // way.
  EXPECT_THAT(page, HasSubstr(">18.4 s</div><div class=\"more\">predicted 9.20 s</div>"
                              "<div class=\"more\">measured +100.0 %</div>"));
  // Two tapes, two inputs of 1 B and the gradient that arrives.
  EXPECT_THAT(page, HasSubstr("<td class=\"left\">predicted</td><td class=\"right\">52 B</td>"));
  EXPECT_THAT(page, HasSubstr("<td class=\"left\">measured</td><td class=\"right\">56 B</td>"));
}

TEST(RunPage, DrawsBothCurvesAndBothPipelines) {
  const std::string page = page_of_twice();

  EXPECT_EQ(count_of(page, "class=\"held\"><title>measured"), 2);
  EXPECT_EQ(count_of(page, "class=\"predicted\"><title>predicted"), 2);
  EXPECT_EQ(count_of(page, ">rank 1</text>"), 2);
  EXPECT_EQ(count_of(page, ">compute</text>"), 4);
  // Eight passes, twice in the pipeline and twice by rank.
  EXPECT_EQ(count_of(page, "class=\"block forward\""), 16);
  EXPECT_EQ(count_of(page, "class=\"block backward\""), 16);
}

/// The number of an attribute after `place`.
double number_after(const std::string& page, const std::string& place, const std::string& key) {
  const std::size_t at = page.find(key + "=\"", page.find(place));
  return std::stod(page.substr(at + key.size() + 2));
}

TEST(RunPage, DrawsBothStepsOnOneScale) {
  const chain::Chain chain = four_layers();
  const plan::Plan plan = one_stage(chain, four_layers_in_14_bytes(), Bytes(14));
  const Simulation predicted = timeline(plan, chain, chain::uniform_platform(1, Bytes(14)));
  const Simulation measured = twice(predicted);

  const std::string page = run_page({.name = "twice",
                                     .plan = plan,
                                     .chain = chain,
                                     .predicted = &predicted,
                                     .measured = &measured});

  const std::string lanes = page.substr(page.find(">predicted</text>"));
  const std::string below = lanes.substr(lanes.find(">measured</text>"));
  const double one = number_after(lanes, ">compute</text><rect", "width");
  const double two = number_after(below, ">compute</text><rect", "width");
  EXPECT_GT(one, 10);
  EXPECT_NEAR(two, 2 * one, 0.2);  // pixels are written to a tenth
}

TEST(RunPage, TellsMeasuredTimesOfLayers) {
  const chain::Chain chain = four_layers();
  const plan::Plan plan = one_stage(chain, four_layers_in_14_bytes(), Bytes(14));
  const Simulation measured = twice(timeline(plan, chain, chain::uniform_platform(1, Bytes(14))));

  const std::string page =
      run_page({.name = "twice", .plan = plan, .chain = chain, .measured = &measured});

  // Layer a: 2 s forward and 3 s backward in the chain.
  EXPECT_THAT(page, HasSubstr("<td class=\"left\">a</td><td class=\"right\">2.00 s</td>"
                              "<td class=\"right\">4.00 s</td><td class=\"right\">3.00 s</td>"
                              "<td class=\"right\">6.00 s</td>"));
}

TEST(RunPage, ShowsWaitsAndTheEndOfAMeasuredStep) {
  TwoRanks run;
  run.predicted.events.push_back(
      {1, Lane::kLink, {Op::kReceiveInput, 1, 0}, Seconds(0), Seconds(1.1), 0});
  run.predicted.events.push_back(
      {0, Lane::kLink, {Op::kReceiveGradient, 1, 0}, Seconds(2), Seconds(4), -1});
  run.predicted.events.push_back(
      {0, Lane::kCompute, {Op::kStep}, Seconds(8), Seconds(9), -1, false});

  const std::string page =
      run_page({.name = "waits", .plan = run.plan, .chain = run.chain, .measured = &run.predicted});

  EXPECT_THAT(page, HasSubstr(">outputs from rank 0</text>"));
  EXPECT_THAT(page, HasSubstr(">gradients awaited</text>"));
  EXPECT_THAT(page, HasSubstr("waiting: 0:receive_input 1 (first)"));
  EXPECT_THAT(page, HasSubstr("class=\"block other\"><title>0:step 0"));
}

TEST(RunPage, TellsWhatKindsOfBytesWerePredictedToMoveAndDid) {
  const chain::Chain chain = four_layers();
  const plan::Plan plan = one_stage(chain, four_layers_in_14_bytes(), Bytes(14));
  const Simulation predicted =
      with_moves(timeline(plan, chain, chain::uniform_platform(1, Bytes(14))));
  Simulation measured = predicted;
  measured.ranks[0].state_moved = Bytes(44);
  measured.ranks[0].end += Seconds(5);

  const std::string page = run_page({.name = "moves",
                                     .plan = plan,
                                     .chain = chain,
                                     .predicted = &predicted,
                                     .measured = &measured});

  EXPECT_THAT(page, HasSubstr(">moved</div><div class=\"much\">74 B</div>"
                              "<div class=\"more\">44 B of optimizer state</div>"));
  EXPECT_THAT(page, HasSubstr("<div class=\"more\">predicted 70 B, 75.0 %</div>"));
  EXPECT_THAT(page, HasSubstr(">moved: state</th>"));
  EXPECT_THAT(page, Not(HasSubstr(">moved: activations</th>")));
  // Copies out and in, state, weights, and what of the step is neither compute nor waiting.
  EXPECT_THAT(page, HasSubstr("<td class=\"right\">1.00 s</td><td class=\"right\">3.00 s</td>"
                              "<td class=\"right\">40 B</td><td class=\"right\">30 B</td>"
                              "<td class=\"left\"></td></tr>"));
  EXPECT_THAT(page, HasSubstr("<td class=\"right\">1.00 s</td><td class=\"right\">3.00 s</td>"
                              "<td class=\"right\">44 B</td><td class=\"right\">30 B</td>"
                              "<td class=\"right\">5.00 s</td></tr>"));
}

TEST(RunPage, TellsWhichStepItShowsAndTheMedianOne) {
  const TwoRanks run;
  RunPage of{.name = "steps", .plan = run.plan, .chain = run.chain, .measured = &run.predicted};
  EXPECT_THAT(run_page(of), Not(HasSubstr("median")));
  of.measured_number = 5;
  of.steps = 12;
  of.median = Seconds(7);

  EXPECT_THAT(run_page(of), HasSubstr("<div class=\"more\">step 5 of 12</div>"
                                      "<div class=\"more\">median 7.00 s</div>"));
}

/// A run of `steps` steps whose loss is 1 / step.
TrainingCurves falling_loss(int steps) {
  TrainingCurves training;
  for (int step = 1; step <= steps; ++step) training.train_loss.push_back({step, 1.0 / step});
  return training;
}

TEST(RunPage, BeginsWithTheCurvesOfTraining) {
  const TwoRanks run;
  TrainingCurves training = falling_loss(4);
  training.validation_loss = {{2, 0.75}, {4, 0.375}};
  training.throughput = {{1, 900}, {2, 1100}, {3, 1100}, {4, 1100}};
  training.gradient_norm = {{1, 2}, {2, 1}, {3, 1}, {4, 0.5}};
  training.learning_rate = {{1, 1e-3}, {2, 1e-3}, {3, 1e-3}, {4, 5e-4}};

  const std::string page = run_page({.name = "curves",
                                     .plan = run.plan,
                                     .chain = run.chain,
                                     .predicted = &run.predicted,
                                     .training = training});

  EXPECT_EQ(markup_fault(page), "");
  EXPECT_EQ(outside_of(page), "");
  EXPECT_LT(page.find("<h2>Training</h2>"), page.find("<h2>Pipeline"));
  for (const char* const name :
       {">loss<", ">tokens per second<", ">gradient norm, before clipping<", ">learning rate<"})
    EXPECT_THAT(page, HasSubstr(name));
  EXPECT_THAT(page, HasSubstr(">train 0.25</text>"));
  EXPECT_THAT(page, HasSubstr(">validation 0.375</text>"));
  EXPECT_THAT(page, HasSubstr("<title>validation: 0.75 after step 2</title>"));
  EXPECT_THAT(page, HasSubstr(">0.0005</text>"));  // the last learning rate
}

TEST(RunPage, HasNoChartOfWhatWasNotMeasured) {
  const TwoRanks run;
  RunPage of{.name = "plain", .plan = run.plan, .chain = run.chain};
  EXPECT_THAT(run_page(of), Not(HasSubstr("Training")));
  of.training = falling_loss(1);

  const std::string page = run_page(of);

  EXPECT_EQ(markup_fault(page), "");
  EXPECT_THAT(page, HasSubstr("<title>train: 1 after step 1</title>"));
  EXPECT_THAT(page, Not(HasSubstr("gradient norm")));
  EXPECT_THAT(page, Not(HasSubstr("alidation")));
}

// y = 1 / step falls to the right: on the page, y grows downwards.
TEST(RunPage, DrawsAPointForEveryStep) {
  const TwoRanks run;
  const std::string page = run_page(
      {.name = "points", .plan = run.plan, .chain = run.chain, .training = falling_loss(3)});

  const std::size_t begin = page.find("<path d=\"M");
  std::istringstream path(page.substr(begin + 9, page.find('"', begin + 9) - begin - 9));
  std::vector<double> numbers;
  for (char command; path >> command;) {
    double x = 0, y = 0;
    path >> x >> y;
    numbers.insert(numbers.end(), {x, y});
  }
  ASSERT_EQ(numbers.size(), 6U);
  EXPECT_NEAR(numbers[2] - numbers[0], numbers[4] - numbers[2], 0.11);
  // 1, 1/2, 1/3 on a straight scale.
  EXPECT_NEAR((numbers[3] - numbers[1]) / (numbers[5] - numbers[3]), 3, 0.02);
}

TEST(RunPage, ShowsTheTrendOfManyStepsAndStaysSmall) {
  const TwoRanks run;
  TrainingCurves training = falling_loss(100'000);
  const std::string page =
      run_page({.name = "long", .plan = run.plan, .chain = run.chain, .training = training});

  EXPECT_THAT(page, HasSubstr("the mean over 1000 of them"));
  EXPECT_THAT(page, HasSubstr("class=\"curve s6 pale\""));
  EXPECT_LT(page.size(), 150'000U);
}

TEST(RunPage, LeavesAGapWhereALossIsNoNumber) {
  const TwoRanks run;
  TrainingCurves training = falling_loss(5);
  training.train_loss[2].value = std::nan("");

  const std::string page =
      run_page({.name = "gap", .plan = run.plan, .chain = run.chain, .training = training});

  EXPECT_EQ(markup_fault(page), "");
  const std::size_t begin = page.find("<path d=\"M");
  const std::string path = page.substr(begin, page.find("class", begin) - begin);
  EXPECT_EQ(count_of(path, "M"), 2);
  EXPECT_EQ(count_of(path, "L"), 2);
}

TEST(RunPage, HasNoColumnsOfZeros) {
  const TwoRanks run;
  plan::Plan unknown = run.plan;  // as of a run without a budget: nothing was predicted
  for (plan::StagePlan& stage : unknown.stages) {
    stage.predicted = {};
    stage.static_bytes = Bytes(0);
  }

  const std::string page =
      run_page({.name = "zeros", .plan = unknown, .chain = run.chain, .measured = &run.predicted});

  EXPECT_THAT(page, HasSubstr("Stages, as planned"));
  EXPECT_EQ(count_of(page, ">in flight</th>"), 1);
  EXPECT_EQ(count_of(page, ">static</th>"), 0);
  EXPECT_EQ(count_of(page, ">0 B</td>"), 0);
  EXPECT_EQ(count_of(page, ">0 s</td>"), 0);
}

TEST(RunPage, SaysWhatIsNotKnown) {
  const TwoRanks run;
  const Simulation nothing;

  const std::string page =
      run_page({.name = "none", .plan = run.plan, .chain = run.chain, .predicted = &nothing});

  EXPECT_EQ(markup_fault(page), "");
  EXPECT_THAT(page, HasSubstr("No measured step is drawn: none was trained"));
  EXPECT_THAT(page, HasSubstr("No step was predicted, because this job could be planned without"));
  EXPECT_THAT(page, Not(HasSubstr("<svg")));
  EXPECT_THAT(page, HasSubstr("kept until backward"));
}

TEST(RunPage, NeedsNoCosts) {
  const TwoRanks run;
  const chain::Chain unknown{.name = "two", .input = Bytes(0), .layers = {}};

  const std::string page = run_page(
      {.name = "costless", .plan = run.plan, .chain = unknown, .measured = &run.predicted});

  EXPECT_EQ(markup_fault(page), "");
  EXPECT_THAT(page, Not(HasSubstr("kept until backward")));
  EXPECT_THAT(page, HasSubstr("forward: forward_tape 1"));
}

TEST(RunPage, PutsReplicasBesideTheOneThatWasPredicted) {
  const TwoRanks run;
  Simulation measured = run.predicted;
  for (int rank = 0; rank < 2; ++rank) {
    measured.ranks.push_back(measured.ranks[static_cast<std::size_t>(rank)]);
    const std::vector<Event> events = run.predicted.events;
    for (Event event : events) {
      if (event.rank != rank) continue;
      event.rank += 2;
      measured.events.push_back(event);
    }
  }

  const std::string page = run_page({.name = "replicas",
                                     .plan = run.plan,
                                     .chain = run.chain,
                                     .predicted = &run.predicted,
                                     .measured = &measured,
                                     .budgets = {Bytes(60), Bytes(60), Bytes(60), Bytes(61)}});

  EXPECT_EQ(count_of(page, "class=\"predicted\"><title>predicted"), 4);
  EXPECT_EQ(count_of(page, ">rank 3</text>"), 1);
  EXPECT_THAT(page, HasSubstr("<td class=\"right\">3</td><td class=\"right\">2</td>"
                              "<td class=\"right\">61 B</td>"));
}

TEST(RunPage, StaysReadableWithManyRanks) {
  const TwoRanks run;
  Simulation measured = run.predicted;
  for (int rank = 2; rank < 300; ++rank) {
    measured.ranks.push_back(measured.ranks[0]);
    measured.ranks.back().peak.size = Bytes(rank == 250 ? 99 : 10);
  }

  const std::string page =
      run_page({.name = "many", .plan = run.plan, .chain = run.chain, .measured = &measured});

  EXPECT_THAT(page, HasSubstr("Compute of 60 of 300 ranks"));
  EXPECT_THAT(page, HasSubstr("Memory and lanes of the 16 ranks"));
  EXPECT_THAT(page, HasSubstr("<h2>Rank 250:"));
  EXPECT_EQ(count_of(page, "<h2>Rank "), 16);
  EXPECT_EQ(count_of(page, "<td class=\"left\">measured</td>"), 300);
}

// 81 920 events in six rows of 834 pixels: no more than two blocks per pixel.
TEST(RunPage, StaysSmallOnLongSteps) {
  const chain::Chain chain = two_layers();
  plan::Plan plan = two_stages(8192);
  const Simulation step = timeline(plan, chain, chain::uniform_platform(2, Bytes(0)));

  const std::string page =
      run_page({.name = "long", .plan = plan, .chain = chain, .measured = &step});

  EXPECT_LT(count_of(page, "<rect"), 6 * 2 * 834);
}

}  // namespace
}  // namespace trireme::report
