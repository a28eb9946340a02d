// Transfers that fail or are withdrawn. Each gives up its stream between two ranks for good, so
// every test uses its own pair of ranks and stream; four ranks.
// SPDX-License-Identifier: Apache-2.0
#include "comm_mpi/mpi_world.h"

#include "trireme/core/text.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace trireme::comm {
namespace {

constexpr std::size_t kLarge = std::size_t{1} << 20;

/// Sends `sent` bytes to a receive of `expected` bytes and checks what the two waits throw.
void expect_mismatch(int sender, int receiver, std::size_t sent, std::size_t expected) {
  MpiBackend::run(patient(), [&](Channel& channel) {
    if (channel.rank() == receiver) {
      Buffer buffer(expected);
      const auto receive = channel.receive(buffer, sender, Stream::kOutputs);
      EXPECT_EQ(error_of_wait<CommError>(*receive, "0:receive_input 3"),
                concat("rank ", receiver, ": rank ", sender, " sent ", sent, " B where ", expected,
                       " B were expected: 0:receive_input 3"));
    }
    if (channel.rank() == sender) {
      const Buffer buffer(sent);
      const auto send = channel.send(buffer, receiver, Stream::kOutputs);
      // A small message is sent before the sender can know.
      const std::string text = error_of_wait<CommError>(*send, "0:send_output 3");
      EXPECT_EQ(text, sent < kLarge
                          ? ""
                          : concat("rank ", sender, ": rank ", receiver, " expected ", expected,
                                   " B where ", sent, " B were sent: 0:send_output 3"));
    }
  });
}

TEST(SizeMismatch, OfSmallMessagesNamesBothSizes) {
  expect_mismatch(0, 1, 12, 8);
  expect_mismatch(0, 2, 8, 12);
  expect_mismatch(0, 3, 0, 8);
}

TEST(SizeMismatch, OfASmallAndALargeMessageNamesBothSizes) {
  expect_mismatch(1, 0, 12, kLarge);
  expect_mismatch(1, 2, kLarge, 12);
}

TEST(SizeMismatch, OfLargeMessagesNamesBothSizes) {
  expect_mismatch(2, 0, kLarge, kLarge + 1);
  expect_mismatch(2, 1, 3 * kLarge, kLarge);
}

TEST(Withdrawal, OfAReceiveLeavesItsBufferAloneAndItsSenderFree) {
  MpiBackend::run(patient(), [](Channel& channel) {
    const std::vector<int> all = everyone(channel);
    Buffer buffer(kLarge, std::byte{0xAA});
    std::unique_ptr<Transfer> receive;
    if (channel.rank() == 1) receive = channel.receive(buffer, 0, Stream::kGradients);
    barrier(channel, all, "rank 0 has heard of the receive");
    receive.reset();
    barrier(channel, all, "withdrawn");
    if (channel.rank() == 0) {
      const Buffer sent(kLarge);
      channel.send(sent, 1, Stream::kGradients)->wait("0:send_output 3");
    }
    barrier(channel, all, "sent");
    EXPECT_TRUE(same_bytes(buffer, Buffer(kLarge, std::byte{0xAA})));
    if (channel.rank() != 1) return;
    receive = channel.receive(buffer, 0, Stream::kGradients);
    EXPECT_EQ(
        error_of_wait<CommError>(*receive, "0:receive_input 3"),
        "rank 1: an earlier transfer of this stream with rank 0 was given up: 0:receive_input "
        "3");
  });
}

TEST(Withdrawal, OfASmallReceiveLeavesItsBufferAlone) {
  MpiBackend::run(patient(), [](Channel& channel) {
    Buffer buffer(16, std::byte{0xAA});
    if (channel.rank() == 1) channel.receive(buffer, 2, Stream::kGradients).reset();
    barrier(channel, everyone(channel), "withdrawn");
    if (channel.rank() == 2) channel.send(Buffer(16), 1, Stream::kGradients)->wait("sent");
    barrier(channel, everyone(channel), "sent");
    EXPECT_TRUE(same_bytes(buffer, Buffer(16, std::byte{0xAA})));
  });
}

TEST(Withdrawal, OfASendThatNobodyReceivesReturnsAtOnceAndFailsTheOnesBehindIt) {
  MpiBackend::run(patient(), [](Channel& channel) {
    if (channel.rank() != 2) return;
    const Buffer behind(kLarge);
    auto freed = std::make_unique<Buffer>(kLarge);
    auto withdrawn = channel.send(*freed, 3, Stream::kGradients);
    const auto later = channel.send(behind, 3, Stream::kGradients);
    withdrawn.reset();
    freed.reset();
    EXPECT_EQ(error_of_wait<CommError>(*later, "0:send_output 3"),
              "rank 2: an earlier transfer of this stream with rank 3 was given up: 0:send_output "
              "3");
    const auto last = channel.send(behind, 3, Stream::kGradients);
    EXPECT_NE(error_of_wait<CommError>(*last, "1:send_output 3"), "");
  });
}

TEST(Withdrawal, OfReceivesThatAreBeingFilledEndsThem) {
  MpiBackend::run(patient(), [](Channel& channel) {
    constexpr int kMany = 20;
    if (channel.rank() == 3) {
      std::vector<Buffer> buffers(kMany, Buffer(kLarge));
      std::vector<std::unique_ptr<Transfer>> receives;
      for (Buffer& buffer : buffers)
        receives.push_back(channel.receive(buffer, 0, Stream::kGradients));
      receives.front()->wait("the first of many");
      // The other receives may be in any state between not begun and done.
      receives.clear();
      for (Buffer& buffer : buffers) buffer.assign(kLarge, std::byte{0xAA});
      barrier(channel, everyone(channel), "withdrawn");
      for (const Buffer& buffer : buffers)
        EXPECT_TRUE(same_bytes(buffer, Buffer(kLarge, std::byte{0xAA})));
    } else {
      const Buffer sent(kLarge);
      std::vector<std::unique_ptr<Transfer>> sends;
      if (channel.rank() == 0)
        for (int i = 0; i < kMany; ++i) sends.push_back(channel.send(sent, 3, Stream::kGradients));
      for (const auto& send : sends) send->wait("sends end, received or not");
      barrier(channel, everyone(channel), "withdrawn");
    }
  });
}

}  // namespace
}  // namespace trireme::comm
