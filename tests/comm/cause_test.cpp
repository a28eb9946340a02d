// SPDX-License-Identifier: Apache-2.0
#include "trireme/comm/cause.h"

#include "comm/transport.h"

#include "trireme/comm/local.h"
#include "trireme/core/out_of_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <new>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace trireme::comm {
namespace {

using Weight = Cause::Weight;

/// An error of rank 2, and how it ends a job.
struct RootError {
  std::function<void()> fail;
  Ending ending;
  std::string text;
};

const std::vector<RootError>& root_errors() {
  static const std::vector<RootError> kErrors{
      {[] { throw InputError("a file"); }, Ending::kWrongInput, "a file"},
      {[] { throw EndingError(Ending::kDoesNotFit, "a budget"); }, Ending::kDoesNotFit, "a budget"},
      {[] { throw DeviceError("a disk"); }, Ending::kFailed, "a disk"},
      {[] { throw std::bad_alloc(); }, Ending::kFailed, kOutOfMemory},
      {[] { throw Interrupted("stopped"); }, Ending::kStopped, "stopped"},
      {[] { throw CommError("waited 3 s"); }, Ending::kFailed, "waited 3 s"}};
  return kErrors;
}

Cause reported(int rank, const std::function<void()>& fail) {
  try {
    fail();
  } catch (const std::exception& error) {
    return cause_of(rank, error);
  }
  return {};
}

/// Consequences that three other ranks may see because rank 2 gives up with `root`.
std::vector<Cause> consequences_of(const Cause& root) {
  std::vector<Cause> all{
      reported(0, [] { throw GivenUpError("an earlier transfer was given up"); }),
      reported(1, [&] { throw RankFailed(root); }),
      reported(3, [] { throw GivenUpError("an earlier transfer was given up"); })};
  if (root.weight > Weight::kTransport)
    all.push_back(reported(4, [] { throw CommError("waited 3 s for rank 2"); }));
  return all;
}

TEST(Outcome, IsTheCauseInWhateverOrderItsConsequencesAreHeard) {
  for (const RootError& error : root_errors()) {
    const Cause root = reported(2, error.fail);
    std::vector<Cause> heard = consequences_of(root);
    heard.push_back(root);
    std::vector<std::size_t> order(heard.size());
    std::iota(order.begin(), order.end(), 0);
    do {
      Outcome outcome, own;
      for (const std::size_t i : order) {
        outcome.hear(heard[i]);
        own.report(heard[i]);
      }
      EXPECT_EQ(outcome.cause(), root);
      EXPECT_EQ(own.cause(), root);
    } while (std::next_permutation(order.begin(), order.end()));
    EXPECT_EQ(root.ending, error.ending);
    EXPECT_EQ(root.reason, error.text);
  }
}

TEST(Outcome, IsTheSameForRanksThatHaveHeardTheSame) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<Cause> all;
    for (int rank = 0; rank < 5; ++rank)
      all.push_back(reported(rank, root_errors()[random() % root_errors().size()].fail));
    Outcome first, second;
    for (const Cause& cause : all) first.hear(cause);
    std::shuffle(all.begin(), all.end(), random);
    for (const Cause& cause : all) second.hear(cause);
    EXPECT_EQ(first.cause()->rank, second.cause()->rank);
  }
}

TEST(Outcome, OfARankThatKnowsACauseDoesNotBecomeAnErrorThatMayFollowFromIt) {
  Outcome outcome;
  outcome.hear({.rank = 3, .ending = Ending::kDoesNotFit, .reason = "a budget"});

  EXPECT_FALSE(outcome.report({.rank = 0, .reason = "a queue was left"}));

  EXPECT_EQ(outcome.cause()->rank, 3);
}

TEST(RankFailed, EndsAJobAsItsCauseDoes) {
  for (const RootError& error : root_errors()) {
    const Cause root = reported(2, error.fail);
    EXPECT_EQ(ending_of(RankFailed(root)), error.ending);
    EXPECT_STREQ(
        RankFailed(root).what(),
        ((error.ending == Ending::kStopped ? "rank 2 ended the job: " : "rank 2 failed: ") +
         error.text)
            .c_str());
  }
}

/// Rank 2 fails in the middle of a transfer, which its unwinding withdraws before any rank hears
/// why.
TEST(RunLocal, EndsWithTheCauseThoughAConsequenceIsReportedFirst) {
  const std::vector<int> two_and_three{2, 3};
  for (const RootError& error : root_errors()) {
    std::string first;
    try {
      run_local(4, patient(), [&](Channel& channel) {
        Buffer buffer(1 << 16), never(8);
        if (channel.rank() != 2) {
          if (channel.rank() == 3) barrier(channel, two_and_three, "rank 2 is on its way out");
          channel.send(buffer, previous_of(channel), Stream::kOutputs)->wait("0:send_output 1");
        }
        try {
          const auto receive = channel.receive(buffer, 3, Stream::kOutputs);
          error.fail();
        } catch (...) {
          barrier(channel, two_and_three, "rank 2 is on its way out");
          const auto end_of_another = channel.receive(never, 3, Stream::kControl);
          first = error_of_wait<CommError>(*end_of_another, "0:receive_input 1");
          throw;
        }
      });
      ADD_FAILURE() << "no error";
    } catch (const std::exception& thrown) {
      EXPECT_EQ(ending_of(thrown), error.ending) << thrown.what();
      EXPECT_EQ(words_of(thrown), error.text);
    }
    EXPECT_EQ(first,
              "rank 3 failed: rank 3: an earlier transfer of this stream with rank 2 was given up: "
              "0:send_output 1");
  }
}

/// Failing ranks write pages and summaries, which must name the cause.
TEST(RunLocal, TellsARankWhoseTransferWasWithdrawnWhy) {
  for (const RootError& error : root_errors()) {
    Ending heard = Ending::kFailed;
    std::string words;
    const auto body = [&](Channel& channel) {
      Buffer buffer(1 << 16);
      if (channel.rank() == 1) {
        channel.receive(buffer, 0, Stream::kOutputs).reset();
        barrier(channel, everyone(channel), "withdrawn");
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        error.fail();
      }
      barrier(channel, everyone(channel), "withdrawn");
      try {
        channel.send(buffer, 1, Stream::kOutputs)->wait("0:send_output 1");
      } catch (const CommError& thrown) {
        heard = ending_of(thrown);
        words = thrown.what();
        throw;
      }
    };
    EXPECT_THROW(run_local(2, patient(), body), std::exception);
    EXPECT_EQ(heard, error.ending);
    EXPECT_THAT(words, testing::HasSubstr(error.text));
  }
}

/// As users and batch systems stop runs: at any moment of transfers in a ring and collectives.
TEST(RunLocal, StoppedAtAnyMomentEndsAsStopped) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 300; ++trial) {
    const int ranks = 2 + trial % 3;
    std::atomic<int> steps_left{static_cast<int>(random() % 200)};
    const ChannelOptions options{Seconds(30), [&] { return steps_left.load() <= 0; }};
    Ending ending = Ending::kFailed;
    std::string text;
    try {
      run_local(ranks, options, [&](Channel& channel) {
        for (int step = 0;; ++step) {
          if (--steps_left <= 0 && channel.rank() == trial % ranks) throw Interrupted("stopped");
          Buffer sent(1 << 13), received(1 << 13);
          const auto receive = channel.receive(received, previous_of(channel), Stream::kOutputs);
          const auto send = channel.send(sent, next_of(channel), Stream::kOutputs);
          receive->wait("0:receive_input 1");
          send->wait("0:send_output 1");
          if (step % 3 == 0) any_of(channel, false, "requests to stop");
        }
      });
    } catch (const std::exception& error) {
      ending = ending_of(error);
      text = error.what();
    }
    ASSERT_EQ(ending, Ending::kStopped) << text;
  }
}

}  // namespace
}  // namespace trireme::comm
