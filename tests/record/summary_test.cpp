// SPDX-License-Identifier: Apache-2.0
#include "trireme/record/summary.h"

#include "sample_summary.h"
#include "support/temporary_folder.h"

#include "trireme/core/error.h"
#include "trireme/io/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <string>

namespace trireme::record {
namespace {

TEST(Summary, HoldsEveryFieldOfTheFormat) {
  const auto read = nlohmann::json::parse(to_json(sample_summary()));

  EXPECT_EQ(read, nlohmann::json::parse(R"({
    "format": "trireme-summary/1", "ended": "completed", "ended_in_step": null, "ended_how": null, "steps": 300, "resumed_after_steps": 100, "train_loss": 2.125, "train_loss_steps": 10, "validation_loss": 2.25,
    "unigram_entropy": 3.125, "unigram_cross_entropy": 3.25, "tokens_per_s": 12345.0,
    "step_s": 0.5, "predicted_step_s": 0.4, "bubble": 0.25, "parameters": 1839360, "trained_parameters": 24576, "seconds_total": 150.0,
    "seconds_to_first_step": 2.0, "parameters_digest": "0123abcd", "losses_digest": "89ef4567",
    "ranks": [
      {"rank": 0, "layers": [1, 5], "budget_bytes": 1073741824, "predicted_peak_bytes": 943718400,
       "peak_bytes": 939524096, "static_bytes": 268435456, "process_bytes": 1342177280,
       "reserved_bytes": 1048576000,
       "optimizer_away_bytes": 67108864, "weights_away_bytes": 8388608, "update_s": 0.065, "update_wait_s": 0.0025,
       "workspace_bytes": 33554432, "outside_bytes": 536870912, "allocator_waits": 3,
       "step_s": null, "predicted_step_s": 0.375, "forward_s": 0.125, "backward_s": 0.1875,
       "recompute_s": 0.0625, "predicted_recompute_s": 0.04, "copy_s": 0.02, "copy_wait_s": 0.005,
       "copy_overlap": 0.75, "wait_s": 0.125},
      {"rank": 1, "layers": [6, 14], "budget_bytes": 0, "predicted_peak_bytes": null,
       "peak_bytes": 512, "static_bytes": 0, "process_bytes": 2048, "reserved_bytes": null,
       "optimizer_away_bytes": 0, "weights_away_bytes": 0, "update_s": 0.0, "update_wait_s": 0.0,
       "workspace_bytes": null, "outside_bytes": null, "allocator_waits": null,
       "step_s": null, "predicted_step_s": null, "forward_s": 0.25, "backward_s": 0.0625,
       "recompute_s": 0.0, "predicted_recompute_s": null, "copy_s": 0.0, "copy_wait_s": 0.0,
       "copy_overlap": null, "wait_s": 0.0}]})"));
}

TEST(Summary, WritesNullForWhatIsNotKnown) {
  RunSummary summary = sample_summary();
  summary.validation_loss.reset();
  summary.unigram_entropy.reset();
  summary.unigram_cross_entropy.reset();
  summary.predicted_step.reset();

  const auto read = nlohmann::json::parse(to_json(summary));

  for (const char* key :
       {"validation_loss", "unigram_entropy", "unigram_cross_entropy", "predicted_step_s"})
    EXPECT_TRUE(read.at(key).is_null()) << key;
}

TEST(Summary, HasJoulesWhereTheyWerePredictedOrMeasured) {
  RunSummary summary = sample_summary();
  EXPECT_FALSE(nlohmann::json::parse(to_json(summary)).contains("energy_j"));
  summary.examples = 32;
  summary.predicted_energy = Joules(48);
  EXPECT_EQ(nlohmann::json::parse(to_json(summary))["energy_j"], nlohmann::json::parse(R"({
    "step": null, "example": null, "predicted_step": 48.0, "predicted_example": 1.5,
    "meter": null})"));
  summary.meter = "RAPL, 1 package";
  summary.ranks[1].has_meter = true;
  EXPECT_TRUE(nlohmann::json::parse(to_json(summary))["energy_j"]["step"].is_null());
  summary.ranks[1].energy = Joules(64);
  summary.predicted_energy.reset();
  EXPECT_EQ(nlohmann::json::parse(to_json(summary))["energy_j"], nlohmann::json::parse(R"({
    "step": 64.0, "example": 2.0, "predicted_step": null, "predicted_example": null,
    "meter": "RAPL, 1 package"})"));
}

TEST(MeasuredEnergy, IsTheSumOverMetersAndNothingWhereOneFailed) {
  RunSummary summary = sample_summary();
  EXPECT_EQ(measured_energy(summary), std::nullopt);
  summary.ranks[0].has_meter = true;
  summary.ranks[0].energy = Joules(5);
  EXPECT_EQ(measured_energy(summary), Joules(5));
  summary.ranks[1].has_meter = true;
  EXPECT_EQ(measured_energy(summary), std::nullopt);
  summary.ranks[1].energy = Joules(7);
  EXPECT_EQ(measured_energy(summary), Joules(12));
}

/// Summary of a run that was stopped in step 14, for which no rank has reported its figures.
RunSummary stopped_summary() {
  RunSummary summary = sample_summary();
  summary.end = {.ending = Ending::kStopped, .step = 14, .words = "stopped in step 14 of 300"};
  summary.steps = 13;
  summary.resumed_after = 0;
  summary.parameters_digest = summary.losses_digest = "";
  summary.ranks.clear();
  return summary;
}

TEST(Summary, SaysHowARunEndedEarly) {
  const auto read = nlohmann::json::parse(to_json(stopped_summary()));

  EXPECT_EQ(read.at("ended"), "stopped");
  EXPECT_EQ(read.at("ended_in_step"), 14);
  EXPECT_EQ(read.at("ended_how"), "stopped in step 14 of 300");
  EXPECT_EQ(read.at("steps"), 13);
  EXPECT_EQ(read.at("step_s"), 0.5);
  // Values that could not be gathered are null.
  for (const char* const key : {"parameters_digest", "losses_digest", "bubble"})
    EXPECT_TRUE(read.at(key).is_null()) << key;
}

TEST(Summary, HoldsNoValueThatIsNoNumber) {
  for (const double lost : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    RunSummary summary = stopped_summary();
    summary.end.ending = Ending::kDiverged;
    summary.train_loss = lost;
    summary.validation_loss = lost;
    const std::string text = to_json(summary);

    ASSERT_TRUE(nlohmann::json::accept(text)) << text;
    EXPECT_TRUE(nlohmann::json::parse(text).at("train_loss").is_null());
    EXPECT_TRUE(nlohmann::json::parse(text).at("validation_loss").is_null());
  }
}

TEST(Summary, HoldsNothingOfStepsThatWereNotMade) {
  RunSummary summary = stopped_summary();
  summary.steps = summary.train_loss_steps = 0;
  summary.step = Seconds(0);
  const auto read = nlohmann::json::parse(to_json(summary));

  for (const char* const key : {"train_loss", "step_s", "tokens_per_s"})
    EXPECT_TRUE(read.at(key).is_null()) << key;
}

// The message may quote a file's name, which is any bytes.
TEST(Summary, IsJsonWhateverTheWords) {
  RunSummary summary = stopped_summary();
  summary.end.words = "failed in step 3: \xff\"\n\x01";
  EXPECT_TRUE(nlohmann::json::accept(to_json(summary)));
}

TEST(CompletedSteps, AreThoseOfRunsThatCompleted) {
  const support::TemporaryFolder folder;
  const auto steps_of = [&](const std::string& text) {
    io::write_file(folder / "summary.json", text);
    return completed_steps(folder / "summary.json");
  };

  EXPECT_EQ(completed_steps(folder / "none.json"), std::nullopt);
  EXPECT_EQ(steps_of(to_json(sample_summary())), 300);
  EXPECT_EQ(steps_of("{\"steps\": 7}"),
            7);  // from versions that wrote summaries of completed runs alone
  for (const Ending ending : {Ending::kStopped, Ending::kDiverged, Ending::kFailed}) {
    RunSummary summary = stopped_summary();
    summary.end.ending = ending;
    EXPECT_EQ(steps_of(to_json(summary)), std::nullopt) << name(ending);
  }
}

TEST(CompletedSteps, AreAskedOfNoDamagedSummary) {
  const support::TemporaryFolder folder;
  for (const char* const text : {"{\"ended\": \"stopqed\", \"steps\": 7}", "{\"ended\"", "[]"}) {
    io::write_file(folder / "summary.json", text);
    EXPECT_THROW(completed_steps(folder / "summary.json"), InputError) << text;
  }
}

TEST(Bubble, IsTheShareOfTheRanksTimeInWhichTheyDoNotCompute) {
  const RankSummary half{.times = {.forward = Seconds(1), .update = Seconds(1)}};
  const RankSummary idle{.times = {.wait = Seconds(4)}};
  EXPECT_EQ(bubble({.step = Seconds(4), .ranks = {half, idle}}), 0.75);
  EXPECT_EQ(bubble({.step = Seconds(1), .ranks = {half}}), 0);  // clocks differ a little
  EXPECT_EQ(bubble({.ranks = {{}}}), 0);
  EXPECT_EQ(bubble({.step = Seconds(1)}), std::nullopt);
}

// A pipeline of two ranks, two of whose stages are on the first, and its replica.
TEST(Summary, TellsOfEveryReplicasRanksWhatWasPlannedForOnePipeline) {
  RunSummary summary = sample_summary();
  summary.planned[0].layers = {{1, 2}, {5, 6}, {9, 9}};
  for (const int rank : {2, 3}) summary.ranks.emplace_back().rank = rank;

  const auto ranks = nlohmann::json::parse(to_json(summary)).at("ranks");
  for (const std::size_t replica : {0, 2}) {
    EXPECT_EQ(ranks.at(replica).at("layers"), nlohmann::json({1, 2}));
    EXPECT_EQ(ranks.at(replica).at("further_layers"), nlohmann::json({{5, 6}, {9, 9}}));
    EXPECT_EQ(ranks.at(replica).at("predicted_step_s"), 0.375);
    EXPECT_EQ(ranks.at(replica + 1).at("layers"), nlohmann::json({6, 14}));
    EXPECT_FALSE(ranks.at(replica + 1).contains("further_layers"));
  }
  EXPECT_THAT(closing_text(summary), testing::HasSubstr("   2  1-2 5-6 9-9         -    900 MiB"));
}

TEST(Summary, HasNoLayersOfARankWithoutAStage) {
  RunSummary summary = sample_summary();
  summary.planned[1].layers.clear();

  const auto ranks = nlohmann::json::parse(to_json(summary)).at("ranks");
  EXPECT_TRUE(ranks.at(1).at("layers").is_null());
  EXPECT_FALSE(ranks.at(1).contains("further_layers"));
  EXPECT_THAT(closing_text(summary), testing::HasSubstr("\n   1       -         -"));
}

TEST(CopyOverlap, IsNothingWhereNothingWasCopied) {
  EXPECT_EQ(copy_overlap({}), std::nullopt);
}

TEST(CopyOverlap, IsTheShareThatNobodyWaitedFor) {
  EXPECT_EQ(copy_overlap({.copy = Seconds(4), .copy_wait = Seconds(1)}), 0.75);
  EXPECT_EQ(copy_overlap({.copy = Seconds(4)}), 1);
  EXPECT_EQ(copy_overlap({.copy = Seconds(4), .copy_wait = Seconds(4)}), 0);
}

// A wait includes the time of a copy in the queue, so it may be longer than all copies.
TEST(CopyOverlap, IsNeverBelowZero) {
  EXPECT_EQ(copy_overlap({.copy = Seconds(4), .copy_wait = Seconds(5)}), 0);
}

TEST(Summary, IsWrittenAsOneFile) {
  const support::TemporaryFolder folder;

  write(sample_summary(), folder / "run/summary.json");

  EXPECT_EQ(io::read_file(folder / "run/summary.json"), to_json(sample_summary()));
}

}  // namespace
}  // namespace trireme::record
