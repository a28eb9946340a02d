// NCCL channels: a rank that sends to itself, the error for two ranks on one GPU, and two ranks
// with a GPU each.
// SPDX-License-Identifier: Apache-2.0
#include "gpu.h"

#include "trireme/comm/local.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <array>

namespace trireme::device {
namespace {

using comm::Stream;

comm::ConstBytes bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}
comm::MutableBytes writable(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

class Nccl : public Gpu {
 protected:
  const std::vector<comm::Link> to_itself_{{0, 0, Stream::kOutputs}, {0, 0, Stream::kGradients}};

  at::TensorOptions floats() const { return at::TensorOptions(at::kFloat).device(on_gpu()); }

  /// Runs `body` with the channel of a single rank that is linked to itself.
  void alone(const comm::ChannelOptions& options,
             const std::function<void(comm::Channel&)>& body) const {
    comm::run_local(1, options, [&](comm::Channel& control) {
      const auto channel = cuda().make_channel(control, options);
      channel->connect(to_itself_);
      body(*channel);
    });
  }
};

TEST_F(Nccl, MessagesToItselfArriveInTheOrderOfSendingOnEachStream) {
  alone({Seconds(30), {}}, [&](comm::Channel& channel) {
    std::vector<at::Tensor> sent, received;
    std::vector<std::unique_ptr<comm::Transfer>> transfers;
    for (int i = 0; i < 8; ++i) {
      // Sent while it is still being computed; received over bytes that are still being written.
      sent.push_back(at::arange(1 << 20, floats()).mul_(i + 1));
      received.push_back(at::full({1 << 20}, -1.0, floats()));
      const Stream stream = i % 2 == 0 ? Stream::kOutputs : Stream::kGradients;
      transfers.push_back(channel.send(bytes_of(sent.back()), 0, stream));
      transfers.push_back(channel.receive(writable(received.back()), 0, stream));
    }
    for (const auto& transfer : transfers) transfer->wait("exchange");
    for (std::size_t i = 0; i < sent.size(); ++i) {
      EXPECT_TRUE(transfers[2 * i + 1]->done());
      EXPECT_TRUE(at::equal(sent[i], received[i])) << "message " << i;
    }
    transfers.clear();
    channel.close();
  });
}

TEST_F(Nccl, HostMemoryGoesOverTheOtherTransport) {
  alone({Seconds(30), {}}, [&](comm::Channel& channel) {
    const at::Tensor sent = at::arange(100);
    const at::Tensor received = at::zeros_like(sent);
    const auto out = channel.send(bytes_of(sent), 0, Stream::kOutputs);
    channel.receive(writable(received), 0, Stream::kOutputs)->wait("host memory");
    out->wait("host memory");
    EXPECT_TRUE(at::equal(sent, received));
  });
}

TEST_F(Nccl, AMessageOfAnotherSizeIsRefused) {
  alone({Seconds(10), {}}, [&](comm::Channel& channel) {
    const at::Tensor sent = at::ones({8}, floats()), received = at::zeros({4}, floats());
    const auto out = channel.send(bytes_of(sent), 0, Stream::kOutputs);
    const auto in = channel.receive(writable(received), 0, Stream::kOutputs);
    try {
      in->wait("3:receive_input 4");
      FAIL() << "the sizes differ";
    } catch (const CommError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("32 B where 16 B were expected"));
    }
  });
}

TEST_F(Nccl, AWaitForAMessageThatDoesNotComeEnds) {
  alone({Seconds(5), {}}, [&](comm::Channel& channel) {
    const at::Tensor buffer = at::ones({8}, floats());
    const auto out = channel.send(bytes_of(buffer), 0, Stream::kOutputs);
    EXPECT_THROW(out->wait("3:send_output 4"), CommError);
    const auto in = channel.receive(writable(buffer), 0, Stream::kGradients);
    EXPECT_THROW(in->wait("3:receive_gradient 4"), CommError);
  });
}

TEST_F(Nccl, TwoRanksOnOneGpuAreToldWhy) {
  try {
    comm::run_local(2, {Seconds(30), {}}, [&](comm::Channel& control) {
      cuda()
          .make_channel(control, {Seconds(30), {}})
          ->connect(comm::pipeline_links(std::array{0, 1}));
    });
    FAIL() << "NCCL before 2.30 refuses two ranks on one GPU";
  } catch (const CommError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("a GPU of its own"));
  }
}

/// Two ranks, as threads, with a GPU each.
class NcclPair : public Nccl {
 protected:
  void SetUp() override {
    Nccl::SetUp();
    if (!IsSkipped() && load_cuda().devices() < 2)
      GTEST_SKIP() << "needs two GPUs: this machine has one";
  }

  void on_both(const std::function<void(comm::Channel&, const at::TensorOptions&)>& body) const {
    const comm::ChannelOptions options{Seconds(20), {}};
    comm::run_local(2, options, [&](comm::Channel& control) {
      CudaPart& gpu = open_cuda(control.rank());
      const auto channel = gpu.make_channel(control, options);
      channel->connect(comm::pipeline_links(std::array{0, 1}));
      body(*channel, at::TensorOptions(at::kFloat).device(gpu.device()));
      channel->close();
    });
  }

  /// What this rank sends, and what it receives.
  static Stream outgoing(const comm::Channel& channel) {
    return channel.rank() == 0 ? Stream::kOutputs : Stream::kGradients;
  }
  static Stream incoming(const comm::Channel& channel) {
    return channel.rank() == 0 ? Stream::kGradients : Stream::kOutputs;
  }
};

TEST_F(NcclPair, MessagesArriveWholeThoughTheyAreSentAndReceivedWhileKernelsWrite) {
  constexpr int kMessages = 8;
  constexpr std::int64_t kElements = 1 << 18;
  on_both([&](comm::Channel& channel, const at::TensorOptions& floats) {
    const int rank = channel.rank(), peer = 1 - rank;
    std::vector<at::Tensor> sent, received;
    for (int i = 0; i < kMessages; ++i) {
      received.push_back(at::full({kElements}, -1.0, floats));
      const auto in = channel.receive(writable(received.back()), peer, incoming(channel));
      sent.push_back(at::full({kElements}, 100 * rank + i, floats));
      const auto out = channel.send(bytes_of(sent.back()), peer, outgoing(channel));
      in->wait("a message in");
      out->wait("a message out");
      received.back().add_(1000);
    }
    for (int i = 0; i < kMessages; ++i)
      EXPECT_TRUE(at::equal(received[i], at::full({kElements}, 1000 + 100 * peer + i, floats)))
          << "message " << i << " to rank " << rank;
  });
}

TEST_F(NcclPair, RanksThatFirstWaitForTheirSendsStillReceive) {
  on_both([&](comm::Channel& channel, const at::TensorOptions& floats) {
    const int rank = channel.rank(), peer = 1 - rank;
    const at::Tensor sent = at::full({1 << 20}, rank, floats);
    const at::Tensor received = at::full({1 << 20}, -1.0, floats);
    const auto in = channel.receive(writable(received), peer, incoming(channel));
    // Neither receive can have begun.
    comm::barrier(channel, comm::everyone(channel), "both have asked");
    const auto out = channel.send(bytes_of(sent), peer, outgoing(channel));
    out->wait("a message out");
    in->wait("a message in");
    EXPECT_TRUE(at::equal(received, at::full({1 << 20}, peer, floats)));
  });
}

TEST_F(NcclPair, AReceiveBeginsWhileItsRankWaitsForAnother) {
  on_both([&](comm::Channel& channel, const at::TensorOptions& floats) {
    const int rank = channel.rank(), peer = 1 - rank;
    const at::Tensor first = at::full({1 << 20}, rank, floats), second = first + 10;
    const at::Tensor of_first = at::zeros({1 << 20}, floats), of_second = at::zeros_like(of_first);
    // Each rank has one outgoing and one incoming stream: rank 0 ends its send before it begins
    // what rank 1 waits for.
    const auto in = channel.receive(writable(of_first), peer, incoming(channel));
    if (rank == 0) {
      channel.send(bytes_of(first), peer, outgoing(channel))->wait("taken while rank 1 waits");
      channel.send(bytes_of(second), peer, outgoing(channel))->wait("the second");
      in->wait("in");
    } else {
      const auto next = channel.receive(writable(of_second), peer, incoming(channel));
      next->wait("the second, before the first");
      in->wait("the first");
      channel.send(bytes_of(first), peer, outgoing(channel))->wait("out");
      EXPECT_TRUE(at::equal(of_second, at::full({1 << 20}, 10.0, floats)));
    }
    EXPECT_TRUE(at::equal(of_first, at::full({1 << 20}, peer, floats)));
  });
}

/// NCCL frees device memory when a communicator is aborted, which takes until no kernel runs there:
/// with two that wait for a rank, aborting one and then the other never gets to the other.
TEST_F(Nccl, MessagesToTwoRanksThatStoppedEndTogether) {
  if (load_cuda().devices() < 3) GTEST_SKIP() << "needs three GPUs";
  comm::run_local(3, {Seconds(20), {}}, [&](comm::Channel& control) {
    CudaPart& gpu = open_cuda(control.rank());
    const auto channel = gpu.make_channel(control, {Seconds(1), {}});
    channel->connect(std::array{comm::Link{0, 1}, comm::Link{0, 2}});
    const at::Tensor values =
        at::ones({1 << 20}, at::TensorOptions(at::kFloat).device(gpu.device()));
    // Its receive is ready, but it does not go on to receive.
    std::unique_ptr<comm::Transfer> receive;
    if (control.rank() != 0) receive = channel->receive(writable(values), 0, Stream::kOutputs);
    comm::barrier(control, comm::everyone(control), "the receives are ready");
    if (control.rank() == 0) {
      auto first = channel->send(bytes_of(values), 1, Stream::kOutputs);
      const auto second = channel->send(bytes_of(values), 2, Stream::kOutputs);
      EXPECT_THROW(first->wait("the first"), CommError);
      EXPECT_FALSE(second->done());
      first.reset();
      EXPECT_TRUE(second->done());
      EXPECT_THROW(second->wait("the second"), CommError);
    }
    comm::barrier(control, comm::everyone(control), "the sender has given up");
    receive.reset();
    channel->close();
  });
}

TEST_F(NcclPair, ASendDoesNotHoldTheDeviceBeforeItsReceiveIsReady) {
  on_both([&](comm::Channel& channel, const at::TensorOptions& floats) {
    const at::Tensor values = at::full({1 << 20}, channel.rank(), floats);
    const Stream other_way = Stream::kGradients;
    if (channel.rank() == 0) {
      const auto out = channel.send(bytes_of(values), 1, Stream::kOutputs);
      open_cuda(0).finish_work();  // ends
      EXPECT_FALSE(out->done());
      const at::Tensor flag = at::zeros({1}, floats);
      channel.receive(writable(flag), 1, other_way)->wait("rank 1 is ready");
      out->wait("3:send_output 4");
    } else {
      const at::Tensor flag = at::ones({1}, floats);
      channel.send(bytes_of(flag), 0, other_way)->wait("rank 1 is ready");
      channel.receive(writable(values), 0, Stream::kOutputs)->wait("3:receive_input 4");
      EXPECT_TRUE(at::equal(values, at::zeros_like(values)));
    }
  });
}

/// A rank that hangs inside CUDA checks no flags.
TEST_F(NcclPair, AWaitForTheDeviceBehindAMessageToARankThatStoppedIsEnded) {
  comm::run_local(2, {Seconds(20), {}}, [&](comm::Channel& control) {
    CudaPart& gpu = open_cuda(control.rank());
    const auto channel = gpu.make_channel(control, {Seconds(1), {}});
    channel->connect(comm::pipeline_links(std::array{0, 1}));
    const at::Tensor values =
        at::ones({1 << 20}, at::TensorOptions(at::kFloat).device(gpu.device()));
    std::unique_ptr<comm::Transfer> receive;
    if (control.rank() == 1) receive = channel->receive(writable(values), 0, Stream::kOutputs);
    comm::barrier(control, comm::everyone(control), "the receive is ready");
    if (control.rank() == 0) {
      const auto out = channel->send(bytes_of(values), 1, Stream::kOutputs);
      gpu.finish_work();
      try {
        out->wait("3:send_output 4");
        FAIL() << "no rank received it";
      } catch (const CommError& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr("did not end within 2 s"));
      }
    }
    comm::barrier(control, comm::everyone(control), "the sender has given up");
    receive.reset();
    channel->close();
  });
}

}  // namespace
}  // namespace trireme::device
