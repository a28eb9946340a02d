// SPDX-License-Identifier: Apache-2.0
#include "trireme/comm/local.h"

#include "comm/collectives_conformance.h"
#include "comm/conformance.h"

#include <atomic>
#include <stdexcept>

namespace trireme::comm {
namespace {

struct LocalBackend {
  static void run(const ChannelOptions& options, const std::function<void(Channel&)>& body) {
    for (const int ranks : {1, 2, 3, 4}) run_local(ranks, options, body);
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(Local, Conformance, LocalBackend);
INSTANTIATE_TYPED_TEST_SUITE_P(Local, Collectives, LocalBackend);

/// The text of the error that a run ends with.
template <class Expected>
std::string error_of_run(int ranks, const std::function<void(Channel&)>& body) {
  try {
    run_local(ranks, patient(), body);
  } catch (const Expected& error) {
    return error.what();
  }
  return "no error of the expected type";
}

TEST(RunLocal, RunsEveryRankOnceAndRankZeroOnTheCallingThread) {
  std::vector<std::atomic<int>> runs(4);
  std::thread::id of_rank_zero;

  run_local(4, patient(), [&](Channel& channel) {
    EXPECT_EQ(channel.size(), 4);
    ++runs[static_cast<std::size_t>(channel.rank())];
    if (channel.rank() == 0) of_rank_zero = std::this_thread::get_id();
    channel.close();
  });

  for (const auto& count : runs) EXPECT_EQ(count, 1);
  EXPECT_EQ(of_rank_zero, std::this_thread::get_id());
}

TEST(RunLocal, ThrowsTheErrorOfTheRankThatFailedNotOneThatTellsOfIt) {
  const std::string text = error_of_run<InputError>(4, [](Channel& channel) {
    if (channel.rank() == 2) throw InputError("job.yaml:3: no such key");
    barrier(channel, everyone(channel), "0:step 0");
  });

  EXPECT_EQ(text, "job.yaml:3: no such key");
}

TEST(RunLocal, KeepsTheTypeOfForeignErrors) {
  EXPECT_THROW(run_local(2, patient(),
                         [](Channel& channel) {
                           if (channel.rank() == 1) throw std::out_of_range("foreign");
                           barrier(channel, everyone(channel), "end");
                         }),
               std::out_of_range);
  EXPECT_THROW(run_local(2, patient(),
                         [](Channel& channel) {
                           if (channel.rank() == 1) throw 42;
                           barrier(channel, everyone(channel), "end");
                         }),
               int);
}

TEST(RunLocal, AFailureEndsTheOthersWaitsWithTheRankAndTheReason) {
  std::vector<std::string> heard(3);

  EXPECT_THROW(run_local(3, patient(),
                         [&](Channel& channel) {
                           if (channel.rank() == 1) throw DeviceError("out of memory");
                           Buffer buffer(4);
                           const auto receive = channel.receive(buffer, 1, Stream::kOutputs);
                           heard[static_cast<std::size_t>(channel.rank())] =
                               error_of_wait<CommError>(*receive, "0:receive_input 1");
                           EXPECT_TRUE(receive->done());
                         }),
               DeviceError);

  EXPECT_EQ(heard[0], "rank 1 failed: out of memory");
  EXPECT_EQ(heard[2], "rank 1 failed: out of memory");
}

TEST(RunLocal, OneWhoGivesUpBecauseOfAnotherPassesOnTheFirstReason) {
  std::atomic<bool> zero_has_ended{false};
  const std::string text = error_of_run<DeviceError>(3, [&](Channel& channel) {
    Buffer buffer(4);
    if (channel.rank() == 0) {
      zero_has_ended = true;
      throw DeviceError("the first error");
    }
    while (!zero_has_ended) std::this_thread::yield();
    const int peer = channel.rank() == 1 ? 0 : 1;
    channel.receive(buffer, peer, Stream::kOutputs)->wait("x");
  });

  EXPECT_EQ(text, "the first error");
}

TEST(RunLocal, WaitingForARankThatHasEndedFailsAtOnce) {
  const std::string text = error_of_run<CommError>(2, [](Channel& channel) {
    if (channel.rank() == 1) return;
    Buffer buffer(4);
    channel.receive(buffer, 1, Stream::kOutputs)->wait("3:receive_input 4");
  });

  EXPECT_EQ(text, "rank 0: rank 1 has ended and answers no more: 3:receive_input 4");
}

TEST(RunLocal, ClosingWithoutAllRanksIsAnError) {
  const std::string text = error_of_run<CommError>(3, [](Channel& channel) {
    if (channel.rank() != 1) channel.close();
  });

  EXPECT_THAT(text, testing::HasSubstr("rank 1 has ended without closing: close"));
}

TEST(RunLocal, ClosingNamesTheRanksThatDoNotCome) {
  std::atomic<bool> zero_has_ended{false};
  std::string text;

  EXPECT_THROW(run_local(3, impatient(),
                         [&](Channel& channel) {
                           if (channel.rank() == 0) {
                             try {
                               channel.close();
                             } catch (const CommError& error) {
                               text = error.what();
                             }
                             zero_has_ended = true;
                             throw CommError(text);
                           }
                           while (!zero_has_ended) std::this_thread::yield();
                         }),
               CommError);

  EXPECT_EQ(text, "rank 0: waited 0.3 s for rank 1, rank 2: close");
}

TEST(RunLocal, ClosingWithATransferUnderWayIsADefect) {
  EXPECT_THROW(run_local(1, patient(),
                         [](Channel& channel) {
                           Buffer buffer(4);
                           const auto receive = channel.receive(buffer, 0, Stream::kOutputs);
                           channel.close();
                         }),
               LogicError);
}

TEST(LocalChannel, DifferentSizesAreAnErrorThatNamesBoth) {
  run_local(2, patient(), [](Channel& channel) {
    Buffer buffer(12);
    if (channel.rank() == 0) {
      const auto send = channel.send(buffer, 1, Stream::kOutputs);
      EXPECT_EQ(error_of_wait<CommError>(*send, "0:send_output 3"),
                "rank 0: rank 1 expected 8 B where 12 B were sent: 0:send_output 3");
    } else {
      const auto receive = channel.receive(MutableBytes(buffer).first(8), 0, Stream::kOutputs);
      EXPECT_EQ(error_of_wait<CommError>(*receive, "0:receive_input 3"),
                "rank 1: rank 0 sent 12 B where 8 B were expected: 0:receive_input 3");
    }
    barrier(channel, everyone(channel), "other streams go on");
  });
}

TEST(LocalChannel, AWithdrawnReceiveIsNeverWrittenTo) {
  run_local(2, patient(), [](Channel& channel) {
    const std::vector<int> both = everyone(channel);
    Buffer buffer(1 << 16, std::byte{0xAA});
    if (channel.rank() == 1) channel.receive(buffer, 0, Stream::kOutputs).reset();
    barrier(channel, both, "withdrawn");
    if (channel.rank() == 0) {
      const Buffer sent(1 << 16);
      const auto send = channel.send(sent, 1, Stream::kOutputs);
      EXPECT_THAT(error_of_wait<CommError>(*send, "0:send_output 3"),
                  testing::HasSubstr("an earlier transfer of this stream with rank 1"));
    }
    barrier(channel, both, "sent");
    EXPECT_TRUE(same_bytes(buffer, Buffer(1 << 16, std::byte{0xAA})));
  });
}

TEST(LocalChannel, AWithdrawnSendIsNeverReceived) {
  run_local(2, patient(), [](Channel& channel) {
    const std::vector<int> both = everyone(channel);
    if (channel.rank() == 0) {
      auto freed = std::make_unique<Buffer>(1 << 16);
      auto send = channel.send(*freed, 1, Stream::kOutputs);
      send.reset();
      freed.reset();
    }
    barrier(channel, both, "withdrawn");
    if (channel.rank() == 1) {
      Buffer buffer(1 << 16);
      const auto receive = channel.receive(buffer, 0, Stream::kOutputs);
      EXPECT_NE(error_of_wait<CommError>(*receive, "0:receive_input 3"), "");
    }
    barrier(channel, both, "looked");
  });
}

TEST(LocalChannel, AUselessRankNumberIsADefect) {
  run_local(1, patient(), [](Channel& channel) {
    Buffer buffer(4);
    EXPECT_THROW(channel.send(buffer, 1, Stream::kOutputs), LogicError);
    EXPECT_THROW(channel.receive(buffer, -1, Stream::kOutputs), LogicError);
  });
}

TEST(Barrier, NobodyPassesBeforeAllHaveCome) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    std::atomic<int> arrived{0};
    run_local(ranks, patient(), [&](Channel& channel) {
      for (int round = 1; round <= 20; ++round) {
        ++arrived;
        barrier(channel, everyone(channel), "barrier");
        EXPECT_GE(arrived, ranks * round);
        barrier(channel, everyone(channel), "looked");
      }
    });
  }
}

}  // namespace
}  // namespace trireme::comm
