// SPDX-License-Identifier: Apache-2.0
#include "sample_summary.h"

#include "trireme/record/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace trireme::record {
namespace {

TEST(ClosingText, PutsLossesBesideTokenFrequenciesAndPredictionBesideMeasurement) {
  EXPECT_EQ(
      closing_text(sample_summary()),
      "steps             300, 200 of them in 2:30 min, the first after 2.00 s\n"
      "resumed from      step 100\n"
      "parameters        1,839,360, 24,576 of them trained\n"
      "train loss        2.1250, mean of the last 10 steps\n"
      "validation loss   2.2500\n"
      "unigram entropy   3.1250, of the validation part; 3.2500 by the train part's counts\n"
      "throughput        12.3k tokens/s, a step in 500 ms, predicted 400 ms (+25.0 %)\n"
      "bubble            25.0 % of the ranks' time in the median step\n"
      "\n"
      "rank  layers    budget  predicted     peak  deviation   static  reserved   process\n"
      "----  ------  --------  ---------  -------  ---------  -------  --------  --------\n"
      "   0     1-5  1.00 GiB    900 MiB  896 MiB     -0.4 %  256 MiB  1000 MiB  1.25 GiB\n"
      "   1    6-14         -          -    512 B          -      0 B         -  2.00 KiB\n"
      "\n"
      "rank  predicted    step  forward  backward  recompute   update   copies  overlap    wait  "
      "  busy\n"
      "----  ---------  ------  -------  --------  ---------  -------  -------  -------  ------  "
      "------\n"
      "   0     375 ms  500 ms   125 ms    188 ms    62.5 ms  62.5 ms  20.0 ms   75.0 %  130 ms  "
      "87.5 %\n"
      "   1          -  500 ms   250 ms   62.5 ms          0        0        0        -       0  "
      "62.5 %\n"
      "\n"
      "rank 0: 8.00 MiB of streamed weights in the offload tier\n"
      "rank 0: 64.0 MiB of optimizer state in the offload tier, updates take 65.0 ms a step, 2.50 "
      "ms "
      "of it waiting for copies\n"
      "\n"
      "rank 0 also: 32.0 MiB of workspaces (of reserved), 512 MiB outside the allocator (contexts, "
      "NCCL, others); it waited for the device 3 times to free memory: a little more budget may be "
      "faster\n"
      "\n"
      "parameters digest: 0123abcd\n"
      "losses digest: 89ef4567\n");
}

TEST(ClosingText, PutsPredictedJoulesBesideMeasuredOnes) {
  RunSummary summary = sample_summary();
  summary.examples = 32;
  EXPECT_THAT(closing_text(summary), testing::Not(testing::HasSubstr("energy")));
  summary.predicted_energy = Joules(48);
  EXPECT_THAT(
      closing_text(summary),
      testing::HasSubstr("energy            predicted 48.0 J a step, 1.50 J an example; not "
                         "measured: no meter can be read\n"));
  summary.meter = "RAPL, 1 package";
  summary.ranks[0].has_meter = true;
  summary.ranks[0].energy = Joules(64);
  EXPECT_THAT(closing_text(summary),
              testing::HasSubstr("energy            64.0 J a step, 2.00 J an example; predicted "
                                 "48.0 J a step (+33.3 %); by RAPL, 1 package, which counts all "
                                 "programs\n"));
}

TEST(ClosingText, LeavesOutWhatIsNotKnown) {
  RunSummary summary = sample_summary();
  summary.resumed_after = 0;
  summary.validation_loss.reset();
  summary.unigram_entropy.reset();
  summary.predicted_step = Seconds(1);
  summary.ranks.clear();
  summary.step = Seconds(0.5);
  summary.parameters = {.all = 999, .trained = 999};

  EXPECT_EQ(closing_text(summary),
            "steps             300 in 2:30 min, the first after 2.00 s\n"
            "parameters        999, all of them trained\n"
            "train loss        2.1250, mean of the last 10 steps\n"
            "throughput        12.3k tokens/s, a step in 500 ms, predicted 1.00 s (-50.0 %)\n"
            "\n"
            "parameters digest: 0123abcd\n"
            "losses digest: 89ef4567\n");
}

TEST(ClosingText, SaysOfWhichStepsTheTrainLossIsTheMean) {
  RunSummary summary = sample_summary();
  summary.train_loss_steps = 1;

  EXPECT_THAT(closing_text(summary),
              testing::HasSubstr("\ntrain loss        2.1250, of the last step\n"));
}

TEST(Facts, AreTheLinesOfTheClosingText) {
  const std::string text = closing_text(sample_summary());
  const auto facts = facts_of(sample_summary());

  ASSERT_EQ(facts.size(), 10U);
  for (const auto& [what, value] : facts) {
    EXPECT_THAT(text, testing::HasSubstr(what));
    EXPECT_THAT(text, testing::HasSubstr(value + "\n"));
  }
}

TEST(Facts, OfARunThatEndedEarlyClaimNoDigest) {
  RunSummary summary = sample_summary();
  summary.end = {.ending = Ending::kDiverged, .step = 14, .words = "diverged in step 14"};
  summary.train_loss = std::nan("");
  summary.ranks.clear();
  const auto facts = facts_of(summary);

  const auto value_of = [&](const std::string& what) {
    for (const auto& [name, value] : facts)
      if (name == what) return value;
    return std::string("none");
  };
  EXPECT_EQ(value_of("train loss"), "not finite, mean of the last 10 steps");
  EXPECT_EQ(value_of("parameters digest"), "none");
  EXPECT_EQ(value_of("losses digest"), "none");
  EXPECT_EQ(value_of("bubble"), "none");
}

TEST(Facts, SayWhereNoStepWasFinished) {
  RunSummary summary = sample_summary();
  summary.steps = summary.resumed_after = summary.train_loss_steps = 0;
  EXPECT_EQ(facts_of(summary).front().second, "none was finished");
}

TEST(PredictionNote, SaysByHowMuchAnEarlierProfileWasOffAndWhatToDo) {
  RunSummary summary = sample_summary();           // 0.5 s, predicted 0.4 s
  EXPECT_EQ(prediction_note(summary, "`x`"), "");  // from layers measured for this run
  summary.has_earlier_costs = true;

  EXPECT_EQ(
      prediction_note(summary, "`x`"),
      "the median step took 25.0 % longer than predicted (500 ms, predicted 400 ms), from layers "
      "that were measured earlier: measure again with `x`");
  summary.predicted_step = Seconds(1);
  EXPECT_THAT(prediction_note(summary, "`x`"), testing::HasSubstr("50.0 % less time than"));
  summary.predicted_step = Seconds(0.42);  // 19 %
  EXPECT_EQ(prediction_note(summary, "`x`"), "");
  summary.predicted_step.reset();
  EXPECT_EQ(prediction_note(summary, "`x`"), "");
}

TEST(ClosingText, CountsExamplesWhereThereAreNoTokens) {
  RunSummary summary = sample_summary();
  summary.unit = "examples";

  EXPECT_THAT(closing_text(summary), testing::HasSubstr("\nthroughput        12.3k examples/s, "));
}

TEST(ClosingText, HasAColumnForUpdatesWhereTheyTakeAHundredthOfAStep) {
  RunSummary summary = sample_summary();
  for (RankSummary& rank : summary.ranks) rank.times.update = Seconds(0);
  EXPECT_THAT(closing_text(summary), testing::Not(testing::HasSubstr("  update")));
  EXPECT_THAT(closing_text(summary), testing::HasSubstr("130 ms  75.0 %\n"));

  summary.ranks[1].times.update = Seconds(0.0049);
  EXPECT_THAT(closing_text(summary), testing::Not(testing::HasSubstr("  update")));
  summary.ranks[1].times.update = Seconds(0.0051);
  EXPECT_THAT(closing_text(summary), testing::HasSubstr("  update"));
}

// One rank, all of whose time is accounted for: what is not busy is the bubble.
TEST(ClosingText, TellsABusyShareThatTheBubbleLeaves) {
  RunSummary summary = sample_summary();
  summary.ranks.resize(1);

  EXPECT_THAT(closing_text(summary), testing::HasSubstr("bubble            12.5 % of "));
  EXPECT_THAT(closing_text(summary), testing::HasSubstr("130 ms  87.5 %\n"));
}

TEST(ClosingText, ClaimsNoBusyShareWithoutAStepTime) {
  RunSummary summary = sample_summary();
  summary.step = Seconds(0);
  summary.predicted_step.reset();

  EXPECT_THAT(closing_text(summary), testing::HasSubstr("130 ms     -\n"));
}

}  // namespace
}  // namespace trireme::record
