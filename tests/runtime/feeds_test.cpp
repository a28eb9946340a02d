// What steps take from the data set, and when.
// SPDX-License-Identifier: Apache-2.0
#include "feeds.h"

#include "trireme/core/error.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>

namespace trireme::runtime {
namespace {

using program::Op;

/// A data set that records what it is asked for.
struct Noted {
  std::vector<std::string> asked;
  DataSource source{.input = [this](std::int64_t step, int m) { return give("input", step, m); },
                    .target = [this](std::int64_t step, int m) { return give("target", step, m); },
                    .validation_input = [this](int m) { return give("validation", 0, m); },
                    .validation_target = [this](int m) { return give("expected", 0, m); }};

  model::Values give(const std::string& what, std::int64_t step, int m) {
    asked.push_back(what + ' ' + std::to_string(step) + ' ' + std::to_string(m));
    return {at::full({1}, 100 * step + m)};
  }
  std::vector<std::string> take() { return std::exchange(asked, {}); }
};

const std::vector<program::Action> kWhole{{.op = Op::kLoadInput, .micro_batch = 0},
                                          {.op = Op::kLoadTarget, .micro_batch = 0},
                                          {.op = Op::kLoadInput, .micro_batch = 1},
                                          {.op = Op::kLoadTarget, .micro_batch = 1}};

double value(const model::Values& values) {
  return values.at(0).item<double>();
}

/// Loads what the executor loads in a step; returns what was loaded.
std::vector<double> run(const Feed& feed, const std::vector<program::Action>& actions) {
  std::vector<double> found;
  for (const auto& action : actions)
    found.push_back(
        value((action.op == Op::kLoadInput ? feed.input : feed.target)(action.micro_batch)));
  feed.meanwhile();
  return found;
}

TEST(Feeds, GiveTheStepsOwnMicroBatchesOfTheReplica) {
  for (const bool ahead : {false, true}) {
    Noted data;
    Feeds feeds(data.source, kWhole, /*first=*/4, /*steps=*/3, ahead);
    for (int step = 0; step < 3; ++step) {
      const double begin = 100 * step + 4;
      EXPECT_EQ(run(feeds.of_step(step), kWhole),
                (std::vector<double>{begin, begin, begin + 1, begin + 1}));
    }
    EXPECT_EQ(data.take().size(), 12U);  // each once
  }
}

TEST(Feeds, LoadTheNextStepsFirstMicroBatchBehindTheLastOneOfAStep) {
  Noted data;
  Feeds feeds(data.source, kWhole, 0, /*steps=*/2, true);
  run(feeds.of_step(0), kWhole);
  const std::vector<std::string> asked = data.take();
  EXPECT_EQ(std::vector(asked.end() - 2, asked.end()),
            (std::vector<std::string>{"input 1 0", "target 1 0"}));
  run(feeds.of_step(1), kWhole);
  EXPECT_EQ(data.take(), (std::vector<std::string>{"input 1 1", "target 1 1"}));
}

TEST(Feeds, LoadWhatTheRanksProgramHasAlone) {
  Noted data;
  const std::vector<program::Action> last{{.op = Op::kLoadTarget, .micro_batch = 0}};
  Feeds feeds(data.source, last, 0, 5, true);
  run(feeds.of_step(0), last);
  EXPECT_EQ(data.take(), (std::vector<std::string>{"target 0 0", "target 1 0"}));
}

/// A run that resumes elsewhere: data loaded for another step are not used for this one.
TEST(Feeds, ForgetWhatWasLoadedForAnotherStep) {
  Noted data;
  Feeds feeds(data.source, kWhole, 0, 9, true);
  run(feeds.of_step(0), kWhole);
  EXPECT_EQ(run(feeds.of_step(7), kWhole), (std::vector<double>{700, 700, 701, 701}));
  EXPECT_EQ(run(feeds.of_step(8), kWhole), (std::vector<double>{800, 800, 801, 801}));
}

TEST(Feeds, SayThatAMicroBatchCannotBeReadWhenItsStepNeedsIt) {
  Noted data;
  DataSource source = data.source;
  source.target = [&](std::int64_t step, int m) {
    if (step == 1) throw Error("cannot be read");
    return data.give("target", step, m);
  };
  Feeds feeds(source, kWhole, 0, 9, true);
  EXPECT_NO_THROW(run(feeds.of_step(0), kWhole));
  const Feed next = feeds.of_step(1);
  EXPECT_EQ(value(next.input(0)), 100);
  EXPECT_THROW(next.target(0), Error);
}

TEST(Feeds, OfValidationAreNotLoadedAhead) {
  Noted data;
  const Feeds feeds(data.source, kWhole, 0, 9, true);
  const Feed feed = feeds.of_validation(6);
  EXPECT_FALSE(feed.meanwhile);
  EXPECT_EQ(value(feed.input(1)), 7);
  EXPECT_EQ(value(feed.target(0)), 6);
}

}  // namespace
}  // namespace trireme::runtime
