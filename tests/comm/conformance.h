// Conformance suite for every transport, instantiated per backend. A backend is a type with
//   static void run(const ChannelOptions&, const std::function<void(Channel&)>& body);
// which calls `body` on every rank of one or more transports, all ranks of a transport at once.
// Bodies use EXPECT only, and leave no transfer and no message behind.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/transport.h"

#include "trireme/comm/channel.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace trireme::comm {

/// Every rank sends one message of each size to the next rank and receives the previous one's.
inline void pass_round(Channel& channel, const std::vector<std::size_t>& sizes, Stream stream) {
  std::vector<Buffer> sent;
  std::vector<Buffer> received;
  for (std::size_t n = 0; n < sizes.size(); ++n) {
    sent.push_back(pattern(sizes[n], seed_of(channel.rank(), static_cast<int>(n))));
    received.emplace_back(sizes[n], std::byte{0xEE});
  }
  std::vector<std::unique_ptr<Transfer>> transfers;
  for (std::size_t n = 0; n < sizes.size(); ++n) {
    transfers.push_back(channel.send(sent[n], next_of(channel), stream));
    transfers.push_back(channel.receive(received[n], previous_of(channel), stream));
  }
  for (const auto& transfer : transfers) transfer->wait("pass round");
  for (std::size_t n = 0; n < sizes.size(); ++n)
    EXPECT_TRUE(same_bytes(received[n],
                           pattern(sizes[n], seed_of(previous_of(channel), static_cast<int>(n)))))
        << "message " << n << " of " << sizes[n] << " B at rank " << channel.rank();
}

template <class Backend>
class Conformance : public testing::Test {};
TYPED_TEST_SUITE_P(Conformance);

TYPED_TEST_P(Conformance, MessagesOfOneStreamArriveInTheOrderOfSending) {
  TypeParam::run(patient(), [](Channel& channel) {
    pass_round(channel, std::vector<std::size_t>(50, 16), Stream::kOutputs);
  });
}

TYPED_TEST_P(Conformance, OrderHoldsBetweenSmallAndLargeMessages) {
  TypeParam::run(patient(), [](Channel& channel) {
    pass_round(channel, {1 << 20, 8, 0, 5000, 4096, 4097, 1, 1 << 16, 4095, 3 << 20, 7},
               Stream::kGradients);
  });
}

// Transports that split messages into pieces (of 100 kB, in one run of this suite) get a small last
// piece, which may overtake the others.
TYPED_TEST_P(Conformance, MessagesALittleLargerThanPiecesArriveWhole) {
  TypeParam::run(patient(), [](Channel& channel) {
    pass_round(channel, {100'001, 101'000, 200'000, 200'001, 204'000, 1'000'100}, Stream::kOutputs);
  });
}

TYPED_TEST_P(Conformance, EmptyMessagesArrive) {
  TypeParam::run(patient(), [](Channel& channel) {
    pass_round(channel, {0, 0, 0}, Stream::kControl);
  });
}

TYPED_TEST_P(Conformance, AMessageOf64MiBArrivesWhole) {
  TypeParam::run(patient(), [](Channel& channel) {
    pass_round(channel, {std::size_t{64} << 20}, Stream::kOutputs);
  });
}

TYPED_TEST_P(Conformance, HundredsOfTransfersMayBeUnderWay) {
  TypeParam::run(patient(), [](Channel& channel) {
    std::vector<std::size_t> sizes;
    for (std::size_t n = 0; n < 300; ++n) sizes.push_back(n % 3 == 0 ? 20000 + n : 3 * n);
    pass_round(channel, sizes, Stream::kGradients);
  });
}

TYPED_TEST_P(Conformance, StreamsDoNotWaitForEachOther) {
  TypeParam::run(patient(), [](Channel& channel) {
    const Buffer output = pattern(1 << 20, seed_of(channel.rank(), 1));
    const Buffer gradient = pattern(1 << 20, seed_of(channel.rank(), 2));
    Buffer got_output(output.size());
    Buffer got_gradient(gradient.size());

    // The outputs are sent first, and received only after the gradients have arrived.
    const auto send_output = channel.send(output, next_of(channel), Stream::kOutputs);
    const auto send_gradient = channel.send(gradient, next_of(channel), Stream::kGradients);
    channel.receive(got_gradient, previous_of(channel), Stream::kGradients)->wait("gradient");
    send_gradient->wait("gradient sent");
    channel.receive(got_output, previous_of(channel), Stream::kOutputs)->wait("output");
    send_output->wait("output sent");

    EXPECT_TRUE(same_bytes(got_output, pattern(1 << 20, seed_of(previous_of(channel), 1))));
    EXPECT_TRUE(same_bytes(got_gradient, pattern(1 << 20, seed_of(previous_of(channel), 2))));
  });
}

TYPED_TEST_P(Conformance, BothSidesMaySendBeforeTheyReceive) {
  TypeParam::run(patient(), [](Channel& channel) {
    const Buffer mine = pattern(8 << 20, seed_of(channel.rank(), 1));
    Buffer before(mine.size());
    Buffer after(mine.size());
    const auto up = channel.send(mine, next_of(channel), Stream::kOutputs);
    const auto down = channel.send(mine, previous_of(channel), Stream::kGradients);
    channel.receive(before, previous_of(channel), Stream::kOutputs)->wait("from the previous");
    channel.receive(after, next_of(channel), Stream::kGradients)->wait("from the next");
    up->wait("up");
    down->wait("down");

    EXPECT_TRUE(same_bytes(before, pattern(8 << 20, seed_of(previous_of(channel), 1))));
    EXPECT_TRUE(same_bytes(after, pattern(8 << 20, seed_of(next_of(channel), 1))));
  });
}

TYPED_TEST_P(Conformance, ARankMaySendToItself) {
  TypeParam::run(patient(), [](Channel& channel) {
    for (const std::size_t size : {std::size_t{0}, std::size_t{9}, std::size_t{1} << 20}) {
      const Buffer sent = pattern(size, 5);
      Buffer received(size);
      const auto send = channel.send(sent, channel.rank(), Stream::kOutputs);
      const auto receive = channel.receive(received, channel.rank(), Stream::kOutputs);
      send->wait("to itself");
      receive->wait("from itself");
      EXPECT_TRUE(same_bytes(received, sent));
    }
  });
}

TYPED_TEST_P(Conformance, ALargeSendKeepsItsBufferUntilItsReceiveIsStarted) {
  TypeParam::run(patient(), [](Channel& channel) {
    const Buffer sent = pattern(1 << 20, seed_of(channel.rank(), 0));
    Buffer received(sent.size());
    const auto send = channel.send(sent, next_of(channel), Stream::kOutputs);
    barrier(channel, everyone(channel), "before any receive");
    EXPECT_FALSE(send->done());
    barrier(channel, everyone(channel), "looked");
    channel.receive(received, previous_of(channel), Stream::kOutputs)->wait("receive");
    send->wait("send");
    EXPECT_TRUE(send->done());
    EXPECT_TRUE(same_bytes(received, pattern(1 << 20, seed_of(previous_of(channel), 0))));
  });
}

TYPED_TEST_P(Conformance, ATransferEndsWithoutAWait) {
  TypeParam::run(patient(), [](Channel& channel) {
    const Buffer sent = pattern(1 << 20, seed_of(channel.rank(), 0));
    Buffer received(sent.size());
    const auto receive = channel.receive(received, previous_of(channel), Stream::kOutputs);
    const auto send = channel.send(sent, next_of(channel), Stream::kOutputs);
    spin_until_done(*receive);
    spin_until_done(*send);
    EXPECT_TRUE(same_bytes(received, pattern(1 << 20, seed_of(previous_of(channel), 0))));
  });
}

TYPED_TEST_P(Conformance, AWaitThatTimesOutNamesBothRanksTheActionAndTheSeconds) {
  TypeParam::run(impatient(), [](Channel& channel) {
    if (channel.rank() > 1 || channel.size() == 1) return;
    Buffer buffer(1 << 16);
    if (channel.rank() == 0) {
      const auto receive = channel.receive(buffer, 1, Stream::kOutputs);
      EXPECT_THAT(error_of_wait<CommError>(*receive, "3:receive_input 4"),
                  testing::AllOf(
                      testing::StartsWith("rank 0: waited 0.3 s for rank 1: 3:receive_input 4 ("),
                      testing::HasSubstr("rank 1 waits for no other rank")));
      EXPECT_FALSE(receive->done());
      spin_until_done(*channel.send(buffer, 1, Stream::kControl));
      // It is still in progress, and data that comes late arrives.
      spin_until_done(*receive);
      receive->wait("again");
      EXPECT_TRUE(same_bytes(buffer, pattern(1 << 16, 7)));
    } else {
      const auto go_on = channel.receive(buffer, 0, Stream::kControl);
      spin_until_done(*go_on);
      const Buffer late = pattern(1 << 16, 7);
      const auto send = channel.send(late, 0, Stream::kOutputs);
      spin_until_done(*send);
    }
  });
}

TYPED_TEST_P(Conformance, AWaitThatTimesOutSaysWhatThePeerItselfWaitsFor) {
  TypeParam::run(impatient(), [](Channel& channel) {
    if (channel.rank() > 2 || channel.size() < 3) return;
    Buffer token(8);
    if (channel.rank() == 0) {
      // A timeout may fall between two waits of rank 1; one of many is enough.
      const auto receive = channel.receive(token, 1, Stream::kOutputs);
      std::string text;
      for (int look = 0; look < 20 && text.find("itself") == std::string::npos; ++look)
        text = error_of_wait<CommError>(*receive, "3:receive_input 4");
      EXPECT_EQ(text,
                "rank 0: waited 0.3 s for rank 1: 3:receive_input 4 (rank 1 itself waits for rank "
                "2: 3:receive_input 8; rank 2 waits for no other rank: it computes, or is stuck in "
                "its own work)");
      spin_until_done(*channel.send(token, 2, Stream::kControl));
      spin_until_done(*receive);
    }
    if (channel.rank() == 1) {
      const auto receive = channel.receive(token, 2, Stream::kOutputs);
      while (!error_of_wait<CommError>(*receive, "3:receive_input 8").empty()) continue;
      spin_until_done(*channel.send(token, 0, Stream::kOutputs));
    }
    if (channel.rank() == 2) {
      const auto go_on = channel.receive(token, 0, Stream::kControl);
      spin_until_done(*go_on);
      spin_until_done(*channel.send(token, 1, Stream::kOutputs));
    }
  });
}

TYPED_TEST_P(Conformance, WaitingForOneselfIsCalledADeadlock) {
  TypeParam::run(impatient(), [](Channel& channel) {
    Buffer sent(8);
    Buffer received(8);
    const auto receive = channel.receive(received, channel.rank(), Stream::kOutputs);
    EXPECT_THAT(error_of_wait<CommError>(*receive, "1:receive_input 2"),
                testing::HasSubstr("deadlock"));
    const auto send = channel.send(sent, channel.rank(), Stream::kOutputs);
    spin_until_done(*receive);
    spin_until_done(*send);
  });
}

TYPED_TEST_P(Conformance, AStopRequestEndsAWait) {
  const auto stop = std::make_shared<std::atomic<bool>>(true);
  const ChannelOptions options{Seconds(30), [stop] { return stop->load(); }};
  TypeParam::run(options, [&](Channel& channel) {
    stop->store(true);
    Buffer sent(8);
    Buffer received(8);
    const auto receive = channel.receive(received, channel.rank(), Stream::kOutputs);
    EXPECT_EQ(error_of_wait<Interrupted>(*receive, "2:receive_gradient 1"),
              concat("rank ", channel.rank(), ": stopped on request while waiting for rank ",
                     channel.rank(), ": 2:receive_gradient 1"));
    const auto send = channel.send(sent, channel.rank(), Stream::kOutputs);
    spin_until_done(*send);
    spin_until_done(*receive);
    receive->wait("a transfer that has ended is not stopped");
  });
}

REGISTER_TYPED_TEST_SUITE_P(Conformance, MessagesOfOneStreamArriveInTheOrderOfSending,
                            OrderHoldsBetweenSmallAndLargeMessages, EmptyMessagesArrive,
                            MessagesALittleLargerThanPiecesArriveWhole, AMessageOf64MiBArrivesWhole,
                            HundredsOfTransfersMayBeUnderWay, StreamsDoNotWaitForEachOther,
                            BothSidesMaySendBeforeTheyReceive, ARankMaySendToItself,
                            ALargeSendKeepsItsBufferUntilItsReceiveIsStarted,
                            ATransferEndsWithoutAWait,
                            AWaitThatTimesOutNamesBothRanksTheActionAndTheSeconds,
                            AWaitThatTimesOutSaysWhatThePeerItselfWaitsFor,
                            WaitingForOneselfIsCalledADeadlock, AStopRequestEndsAWait);

}  // namespace trireme::comm
