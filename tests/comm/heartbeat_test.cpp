// SPDX-License-Identifier: Apache-2.0
#include "trireme/comm/heartbeat.h"

#include "trireme/comm/local.h"
#include "trireme/core/error.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace trireme::comm {
namespace {

using namespace std::chrono_literals;

TEST(RunPiecesWithHeartbeat, KeepsNobodyWaitingForLongerThanAPiece) {
  // Rank 1 works three times as long as any rank may wait.
  run_local(2, {.timeout = Seconds(1.5), .stop_requested = {}}, [](Channel& channel) {
    int left = channel.rank() == 1 ? 45 : 1;
    run_pieces_with_heartbeat(
        channel,
        [&] {
          if (channel.rank() == 1) std::this_thread::sleep_for(100ms);
          return --left > 0;
        },
        "work");
    EXPECT_EQ(left, 0);
    channel.close();
  });
}

TEST(RunPiecesWithHeartbeat, EndsOnEveryRankWithTheErrorOfOne) {
  std::mutex mutex;
  std::vector<std::string> said;
  run_local(3, {.timeout = Seconds(30), .stop_requested = {}}, [&](Channel& channel) {
    int pieces = 0;
    try {
      run_pieces_with_heartbeat(
          channel,
          [&] {
            if (channel.rank() == 1 && ++pieces == 3) throw InputError("a file of rank 1");
            return true;
          },
          "work");
    } catch (const InputError& error) {
      const std::lock_guard lock(mutex);
      said.emplace_back(error.what());
    }
    channel.close();
  });
  EXPECT_EQ(said, std::vector<std::string>(3, "a file of rank 1"));
}

// Which rank failed makes no difference to the job's exit code.
TEST(RunPiecesWithHeartbeat, EndsOnEveryRankWithTheSameEnding) {
  const std::vector<std::pair<std::function<void()>, Ending>> errors{
      {[] { throw DeviceError("a disk"); }, Ending::kFailed},
      {[] { throw InputError("a file"); }, Ending::kWrongInput},
      {[] { throw EndingError(Ending::kDoesNotFit, "a budget"); }, Ending::kDoesNotFit},
      {[] { throw Interrupted("stopped"); }, Ending::kStopped}};
  for (const auto& [fail, ending] : errors) {
    std::mutex mutex;
    std::vector<Ending> endings;
    run_local(3, {.timeout = Seconds(30), .stop_requested = {}}, [&](Channel& channel) {
      const auto piece = [&] {
        if (channel.rank() == 1) fail();
        return false;
      };
      try {
        run_pieces_with_heartbeat(channel, piece, "work");
      } catch (const Error& error) {
        const std::lock_guard lock(mutex);
        endings.push_back(ending_of(error));
      }
      channel.close();
    });
    EXPECT_EQ(endings, std::vector<Ending>(3, ending));
  }
}

TEST(RunPiecesWithHeartbeat, OfRanksThatFailTogetherHearsTheFirst) {
  std::mutex mutex;
  std::vector<std::string> said;
  run_local(3, {.timeout = Seconds(30), .stop_requested = {}}, [&](Channel& channel) {
    const auto piece = [&]() -> bool {
      if (channel.rank() == 0) return false;
      if (channel.rank() == 1) std::this_thread::sleep_for(100ms);
      throw InputError("a file of rank " + std::to_string(channel.rank()));
    };
    try {
      run_pieces_with_heartbeat(channel, piece, "work");
    } catch (const InputError& error) {
      const std::lock_guard lock(mutex);
      said.emplace_back(error.what());
    }
    channel.close();
  });
  EXPECT_EQ(said, std::vector<std::string>(3, "a file of rank 1"));
}

TEST(RunWithHeartbeat, KeepsNobodyWaitingHoweverLongItTakes) {
  run_local(3, {.timeout = Seconds(1.5), .stop_requested = {}}, [](Channel& channel) {
    bool worked = false;
    const auto caller = std::this_thread::get_id();
    run_with_heartbeat(
        channel,
        [&] {
          EXPECT_EQ(std::this_thread::get_id(), caller);
          if (channel.rank() == 2) std::this_thread::sleep_for(4s);
          worked = true;
        },
        "work");
    EXPECT_TRUE(worked);
    channel.close();
  });
}

TEST(RunWithHeartbeat, EndsOnEveryRankWithTheErrorOfOne) {
  run_local(2, {.timeout = Seconds(30), .stop_requested = {}}, [&](Channel& channel) {
    EXPECT_THROW(run_with_heartbeat(
                     channel,
                     [&] {
                       if (channel.rank() == 0) throw InputError("bad");
                     },
                     "work"),
                 InputError);
    channel.close();
  });
}

}  // namespace
}  // namespace trireme::comm
