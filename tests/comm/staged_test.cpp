// Messages staged through host memory, with a slow device: its copies to the host happen only when
// they are waited for, or polled often enough.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/comm/staged.h"

#include "comm/collectives_conformance.h"
#include "comm/conformance.h"

#include "trireme/comm/local.h"

#include <algorithm>

namespace trireme::comm {
namespace {

constexpr int kLooks = 3;

/// Treats all memory as device memory. A copy to the host reads the bytes at the time when it
/// happens.
class SlowCopies final : public HostCopies {
 public:
  class Out final : public Copy {
   public:
    Out(std::byte* to, ConstBytes from) : to_(to), from_(from) {}
    bool ended() override {
      if (++looks_ >= kLooks) wait();
      return is_done_;
    }
    void wait() override {
      if (!is_done_) std::copy(from_.begin(), from_.end(), to_);
      is_done_ = true;
    }

   private:
    std::byte* to_;
    ConstBytes from_;
    int looks_ = 0;
    bool is_done_ = false;
  };
  class In final : public Copy {
   public:
    bool ended() override { return ++looks_ >= kLooks; }
    void wait() override {}

   private:
    int looks_ = 0;
  };

  bool is_device_memory(const void* /*data*/) const override { return true; }
  std::shared_ptr<std::byte> take(std::size_t size) override {
    return {new std::byte[size], std::default_delete<std::byte[]>()};
  }
  std::unique_ptr<Copy> out(std::byte* to, ConstBytes from) override {
    return std::make_unique<Out>(to, from);
  }
  std::unique_ptr<Copy> in(MutableBytes to, const std::byte* from) override {
    std::copy(from, from + to.size(), to.begin());
    return std::make_unique<In>();
  }
};

struct StagedBackend {
  static void run(const ChannelOptions& options, const std::function<void(Channel&)>& body) {
    for (const int ranks : {1, 2, 3}) {
      run_local(ranks, options, [&](Channel& control) {
        const auto channel = make_staged_channel(control, std::make_unique<SlowCopies>());
        body(*channel);
      });
    }
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(Staged, Conformance, StagedBackend);
INSTANTIATE_TYPED_TEST_SUITE_P(Staged, Collectives, StagedBackend);

/// Counts what is passed to the transport below.
class Watched final : public Channel {
 public:
  explicit Watched(Channel& inner) : inner_(inner) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  std::unique_ptr<Transfer> send(ConstBytes data, int to, Stream stream) override {
    ++sends;
    return inner_.send(data, to, stream);
  }
  std::unique_ptr<Transfer> receive(MutableBytes data, int from, Stream stream) override {
    return inner_.receive(data, from, stream);
  }
  void abandon(std::string_view reason) noexcept override { inner_.abandon(reason); }
  void close() override { inner_.close(); }

  int sends = 0;

 private:
  Channel& inner_;
};

TEST(StagedChannel, ASendReturnsBeforeItsBytesAreThereAndIsHandedOnBeforeAnyWait) {
  run_local(2, patient(), [](Channel& control) {
    Watched watched(control);
    const auto channel = make_staged_channel(watched, std::make_unique<SlowCopies>());
    const int other = 1 - control.rank();
    Buffer sent = pattern(1 << 20, 1), received(sent.size());
    const auto out = channel->send(sent, other, Stream::kOutputs);
    EXPECT_EQ(watched.sends, 0);
    // Each waits for a gradient that the other sends after this wait, which ends only if the output
    // was sent.
    channel->receive(received, other, Stream::kOutputs)->wait("the other's output");
    EXPECT_EQ(watched.sends, 1);
    out->wait("output sent");
    EXPECT_TRUE(same_bytes(received, sent));
    channel->close();
  });
}

TEST(StagedChannel, LookingIsEnoughToHandOn) {
  run_local(1, patient(), [](Channel& control) {
    Watched watched(control);
    const auto channel = make_staged_channel(watched, std::make_unique<SlowCopies>());
    const Buffer sent = pattern(8, 1);
    const auto out = channel->send(sent, 0, Stream::kOutputs);
    for (int i = 0; i <= kLooks; ++i) out->done();
    EXPECT_EQ(watched.sends, 1);
    Buffer received(sent.size());
    channel->receive(received, 0, Stream::kOutputs)->wait("itself");
    out->wait("itself");
  });
}

TEST(StagedChannel, AWithdrawnSendGivesItsStreamUp) {
  run_local(1, patient(), [](Channel& control) {
    const auto channel = make_staged_channel(control, std::make_unique<SlowCopies>());
    const Buffer sent = pattern(8, 1);
    channel->send(sent, 0, Stream::kOutputs);
    EXPECT_THROW(channel->send(sent, 0, Stream::kOutputs), CommError);
  });
}

}  // namespace
}  // namespace trireme::comm
