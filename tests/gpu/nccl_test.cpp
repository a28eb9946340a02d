// NCCL with one GPU: a rank to itself, and what it says to two ranks on it. Two ranks that talk
// need two GPUs.
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

  /// `body` with the channel of a single rank that is linked to itself.
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
      // Sent while it is still being made; received over what is still being written.
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

}  // namespace
}  // namespace trireme::device
