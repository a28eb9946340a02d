// SPDX-License-Identifier: Apache-2.0
#include "trireme/comm/rounds.h"

#include "trireme/comm/local.h"
#include "trireme/core/error.h"

#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace trireme::comm {
namespace {

using namespace std::chrono_literals;

TEST(WorkInRounds, KeepsNobodyWaitingForLongerThanAPiece) {
  // Rank 1 works three times as long as anybody may wait.
  run_local(2, {.timeout = Seconds(1.5), .stop_requested = {}}, [](Channel& channel) {
    int left = channel.rank() == 1 ? 45 : 1;
    work_in_rounds(
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

TEST(WorkInRounds, EndsOnEveryRankWithTheErrorOfOne) {
  std::mutex mutex;
  std::vector<std::string> said;
  run_local(3, {.timeout = Seconds(30), .stop_requested = {}}, [&](Channel& channel) {
    int pieces = 0;
    try {
      work_in_rounds(
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

// So that one of them can say it for all, its own rank no more than the others.
TEST(WorkInRounds, MarksWhatAllRanksHaveBeenToldUnlessOneWasInterrupted) {
  for (const bool interrupted : {false, true}) {
    std::mutex mutex;
    std::vector<std::string> told(3), others(3);
    run_local(3, {.timeout = Seconds(30), .stop_requested = {}}, [&](Channel& channel) {
      const auto rank = static_cast<std::size_t>(channel.rank());
      const auto piece = [&]() -> bool {
        if (rank != 1) return false;
        if (interrupted) throw Interrupted("stopped");
        throw DeviceError("a disk of rank 1");
      };
      try {
        work_in_rounds(channel, piece, "work");
      } catch (const ToldError& error) {
        const std::lock_guard lock(mutex);
        told[rank] = error.what();
      } catch (const Interrupted& error) {
        const std::lock_guard lock(mutex);
        others[rank] = error.what();
      }
      channel.close();
    });
    if (interrupted) {
      EXPECT_EQ(told, (std::vector<std::string>{"stopped", "", "stopped"}));
      EXPECT_EQ(others, (std::vector<std::string>{"", "stopped", ""}));
    } else {
      EXPECT_EQ(told, std::vector<std::string>(3, "a disk of rank 1"));
    }
  }
}

TEST(WorkInRounds, OfRanksThatFailTogetherHearsTheFirst) {
  std::mutex mutex;
  std::vector<std::string> said;
  run_local(3, {.timeout = Seconds(30), .stop_requested = {}}, [&](Channel& channel) {
    const auto piece = [&]() -> bool {
      if (channel.rank() == 0) return false;
      if (channel.rank() == 1) std::this_thread::sleep_for(100ms);
      throw InputError("a file of rank " + std::to_string(channel.rank()));
    };
    try {
      work_in_rounds(channel, piece, "work");
    } catch (const InputError& error) {
      const std::lock_guard lock(mutex);
      said.emplace_back(error.what());
    }
    channel.close();
  });
  EXPECT_EQ(said, std::vector<std::string>(3, "a file of rank 1"));
}

TEST(WorkBesideRounds, KeepsNobodyWaitingHoweverLongItTakes) {
  run_local(3, {.timeout = Seconds(1.5), .stop_requested = {}}, [](Channel& channel) {
    bool worked = false;
    const auto caller = std::this_thread::get_id();
    work_beside_rounds(
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

TEST(WorkBesideRounds, EndsOnEveryRankWithTheErrorOfOne) {
  run_local(2, {.timeout = Seconds(30), .stop_requested = {}}, [&](Channel& channel) {
    EXPECT_THROW(work_beside_rounds(
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
