// Runs that are stopped, diverge or fail leave a page and a summary that say so.
// SPDX-License-Identifier: Apache-2.0
#include "resuming.h"

#include "trireme/core/digest.h"
#include "trireme/core/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>

namespace trireme {
namespace {

using testing::HasSubstr;
using testing::Not;

class EarlyEnd : public Resuming {
 protected:
  /// Sends `signal` once that many lines were printed.
  CommandResult stopped(const std::string& settings, const std::string& signal = "INT",
                        int lines = 12) {
    const std::string pipe = (folder_.path() / "lines").string();
    return run_command("mkfifo " + pipe + "; (exec " + TRIREME_BINARY + " train " + job_ +
                       " --set train.steps=1000000 " + settings + ") >" + pipe +
                       " & pid=$!; { for i in $(seq " + std::to_string(lines) +
                       "); do read -r line; done; kill -" + signal + " $pid; cat; } <" + pipe +
                       "; wait $pid; status=$?; rm " + pipe + "; exit $status");
  }
  std::string page() const { return text_of(run_ / "report.html"); }
};

constexpr const char* kDiverges =
    "--set train.clip_norm=0 --set data.validation_fraction=0 --set train.steps=40 --set "
    "'train.optimizer={kind: sgd, learning_rate: 1000, momentum: 0.99}' --set "
    "train.schedule.kind=constant ";

TEST_F(EarlyEnd, OfAStoppedRunIsOnThePageAndInTheSummary) {
  for (const char* const settings :
       {"--set report.log_every=1", "--set report.log_every=1 --set pipeline.stages=2"}) {
    const CommandResult run = stopped(settings);

    ASSERT_EQ(run.exit_code, 130) << run.errors;
    const nlohmann::json summary = summary_of(run_);
    EXPECT_EQ(summary.at("ended"), "stopped");
    const auto step = summary.at("ended_in_step").get<std::int64_t>();
    EXPECT_GT(step, 1);
    EXPECT_GE(summary.at("steps"), 1);
    EXPECT_LE(summary.at("steps"), step);
    EXPECT_TRUE(summary.at("train_loss").is_number());
    EXPECT_TRUE(summary.at("parameters_digest").is_null());
    EXPECT_GT(summary.at("parameters"), 0);
    EXPECT_EQ(summary.at("trained_parameters"), summary.at("parameters"));
    const std::string how = summary.at("ended_how");
    EXPECT_THAT(how, HasSubstr(concat("step ", step, " of 1000000")));
    EXPECT_THAT(page(), HasSubstr(concat("<p class=\"notice\">This run ", how, ".</p>")));
    EXPECT_THAT(page(), HasSubstr("<h2>Training</h2>"));
  }
}

// A single rank learns its losses without waiting for others.
TEST_F(EarlyEnd, OfOneRankHasEveryStepThatWasFinished) {
  const CommandResult run =
      stopped("--set report.log_every=5 --set train.validate_every=0", "TERM", 6);

  ASSERT_EQ(run.exit_code, 130) << run.errors;
  EXPECT_THAT(run.out, HasSubstr("no checkpoint was kept: the same command starts over"));
  const nlohmann::json summary = summary_of(run_);
  const auto steps = summary.at("steps").get<std::int64_t>();
  EXPECT_LE(summary.at("ended_in_step").get<std::int64_t>() - steps, 1);
  const std::string metrics = text_of(run_ / "metrics.jsonl");
  EXPECT_EQ(std::count(metrics.begin(), metrics.end(), '\n'), steps);
}

TEST_F(EarlyEnd, OfAStoppedRunIsNoEnd) {
  const std::string saves = "--set report.log_every=1 --set checkpoint.every=2 ";
  const CommandResult first = stopped(saves + "--set report.html=true", "INT", 20);
  ASSERT_EQ(first.exit_code, 130) << first.errors;
  ASSERT_EQ(summary_of(run_).at("ended"), "stopped");
  EXPECT_THAT(first.out, HasSubstr("the same command resumes from the checkpoint of step "));

  const CommandResult again = stopped(saves, "INT", 20);

  ASSERT_EQ(again.exit_code, 130) << again.errors;
  const auto resumed = summary_of(run_).at("resumed_after_steps").get<std::int64_t>();
  EXPECT_GE(resumed, 2);
  EXPECT_THAT(page(), HasSubstr(concat("<dt>resumed from</dt><dd>step ", resumed, "</dd>")));
  EXPECT_THAT(page(), HasSubstr(concat("where the run resumed from step ", resumed, ".")));
  EXPECT_FALSE(std::filesystem::exists(run_.string() + ".1"));
}

// Without a check before it, only the message of LibTorch's loader would be printed.
TEST_F(EarlyEnd, OfAProcessWithFewAddressesIsTold) {
  const CommandResult run = train("", "ulimit -v 400000;");
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.errors, HasSubstr("may use 390 MiB of addresses (ulimit -v), but LibTorch"));
}

TEST_F(EarlyEnd, OfADivergedRunIsNoSuccess) {
  for (const char* const stages : {"1", "2", "3"}) {
    const CommandResult run = train(concat(kDiverges, "--set pipeline.stages=", stages));

    ASSERT_EQ(run.exit_code, 1) << run.out;
    EXPECT_THAT(run.out, Not(HasSubstr("parameters digest")));
    const std::string text = text_of(run_ / "summary.json");
    EXPECT_THAT(text, Not(HasSubstr("nan")));
    const nlohmann::json summary = nlohmann::json::parse(text);
    EXPECT_EQ(summary.at("ended"), "diverged");
    EXPECT_TRUE(summary.at("parameters_digest").is_null());
    const std::string how = summary.at("ended_how");
    EXPECT_THAT(
        how, HasSubstr(concat("diverged in step ", summary.at("ended_in_step").get<std::int64_t>(),
                              " of 40: ")));
    EXPECT_THAT(how, HasSubstr("is not finite"));
    EXPECT_THAT(run.errors, HasSubstr(concat("step ", summary.at("ended_in_step").get<int>())));
    EXPECT_THAT(page(), HasSubstr(how));
    std::filesystem::remove_all(run_);
  }
}

#ifdef TRIREME_MPIRUN
// Another process may have ended the job before rank 0 is done.
TEST_F(EarlyEnd, OfRanksOfMpirunIsLeftByRankZero) {
  const std::string mpirun =
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 " TRIREME_MPIRUN
      " --oversubscribe -n 2 " TRIREME_BINARY " train " +
      job_ + " ";
  for (int trial = 0; trial < 3; ++trial) {
    const CommandResult run = run_command(mpirun + kDiverges);

    ASSERT_EQ(run.exit_code, 1) << run.errors;
    EXPECT_EQ(summary_of(run_).at("ended"), "diverged");
    EXPECT_THAT(page(), HasSubstr("This run diverged in step "));
    std::filesystem::remove_all(run_);
  }
}
#endif

TEST_F(EarlyEnd, LeavesNoSummaryOfAnEarlierStart) {
  const std::string saves = "--set report.log_every=1 --set checkpoint.every=2 ";
  ASSERT_EQ(stopped(saves, "INT", 20).exit_code, 130);
  ASSERT_TRUE(std::filesystem::exists(run_ / "summary.json"));

  stopped(saves, "KILL", 12);

  EXPECT_FALSE(std::filesystem::exists(run_ / "summary.json"));
  EXPECT_FALSE(std::filesystem::exists(run_ / "report.html"));
}

TEST_F(EarlyEnd, OfADamagedSummaryIsAskedAboutBeforeARunGoesOn) {
  ASSERT_EQ(train("--set checkpoint.every=2").exit_code, 0);
  folder_.file("runs/small/summary.json", "{\"ended\": \"compl");

  const CommandResult run = train("--set checkpoint.every=2");

  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.errors, HasSubstr("summary.json to resume from the newest checkpoint"));
}

/// The profile with passes of a second per layer, and its digest then.
std::string much_slower(std::string profile) {
  const std::size_t begin = profile.find("\nformat: ") + 1;
  const std::string costs = profile.substr(begin);
  std::string slow = costs;
  for (const std::string key : {"forward_s: ", "backward_s: "})
    for (std::size_t at = 0; (at = slow.find(key, at)) != std::string::npos;) {
      at += key.size();
      slow.replace(at, slow.find_first_of(",}\n", at) - at, "1");
    }
  profile.replace(begin, costs.size(), slow);
  const std::string known = digest(costs);
  return profile.replace(profile.find(known), known.size(), digest(slow));
}

TEST_F(EarlyEnd, OfAPredictionIsToldWithWhatToDo) {
  const std::string budget = "--set memory.device_budget=4MiB ";
  const CommandResult fresh = train(budget);
  ASSERT_EQ(fresh.exit_code, 0) << fresh.errors;
  EXPECT_THAT(fresh.out, Not(HasSubstr("trireme profile --fresh")));
  for (const auto& entry : std::filesystem::directory_iterator(run_.parent_path() / ".profiles")) {
    const std::string profile = text_of(entry.path());
    ASSERT_THAT(profile, HasSubstr("forward_s: "));
    folder_.file("runs/.profiles/" + entry.path().filename().string(), much_slower(profile));
  }

  const CommandResult run = train(budget);

  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.out, HasSubstr("% less time than predicted"));
  EXPECT_THAT(run.out, HasSubstr("measure again with `trireme profile --fresh " + job_ +
                                 " --set memory.device_budget=4MiB`"));
  EXPECT_THAT(page(), HasSubstr("measure again with `trireme profile --fresh "));
}

TEST_F(EarlyEnd, NeverHidesHowManyParametersThereAre) {
  const CommandResult whole = train("--set model.tied_head=true");
  const nlohmann::json tied = summary_of(run_);
  const CommandResult apart = train("--set model.tied_head=false");
  const nlohmann::json untied = summary_of(run_);

  // GPT-2's layers by hand: embeddings 64 x 32 and 16 x 32; per block two norms, 32 x 96 + 96,
  // 32 x 32 + 32, 32 x 128 + 128, 128 x 32 + 32; a norm; and a head where it is not the embedding.
  const int block = 2 * 64 + 32 * 96 + 96 + 32 * 32 + 32 + 32 * 128 + 128 + 128 * 32 + 32;
  EXPECT_EQ(tied.at("parameters"), 64 * 32 + 16 * 32 + 2 * block + 64);
  EXPECT_EQ(untied.at("parameters").get<int>() - tied.at("parameters").get<int>(), 64 * 32);
  EXPECT_THAT(whole.out, HasSubstr("parameters        28,032, all of them trained\n"));
  EXPECT_THAT(page(), HasSubstr("<dt>parameters</dt>"));
  // Each rank counts its own layers.
  train("--set model.tied_head=true --set pipeline.stages=3");
  EXPECT_EQ(summary_of(run_).at("parameters"), tied.at("parameters"));

  train("--set model.lora_rank=2");
  EXPECT_LT(summary_of(run_).at("trained_parameters"), summary_of(run_).at("parameters"));
  EXPECT_GT(summary_of(run_).at("trained_parameters"), 0);
}

}  // namespace
}  // namespace trireme
