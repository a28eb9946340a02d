// Values are offloaded and copied back while others reuse their bytes at once: without the right
// waits between the streams, kernels and copies of these tests overtake each other.
// SPDX-License-Identifier: Apache-2.0
#include "gpu.h"

#include "trireme/model/taped.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <deque>
#include <vector>

namespace trireme::device {
namespace {

using Key = program::ValueKey;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

/// A tier of pinned memory alone.
tier::OffloadStoreOptions memory(std::int64_t size) {
  return {.host = Bytes(size), .disk = Bytes(0)};
}

/// Under compute-sanitizer (tests/gpu/races), which finds races by order and not by outcome, and
/// runs kernels a hundred times slower.
bool is_watched() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no thread changes the environment
  return std::getenv("TRIREME_RACES") != nullptr;
}

class GpuCopies : public Gpu {
 protected:
  at::TensorOptions floats() const { return at::TensorOptions(at::kFloat).device(on_gpu()); }

  /// Keeps the compute stream busy for some milliseconds; does not block the host.
  void compute_for_long() const {
    // Copies are late anyway there, and a race is found whatever comes first here.
    if (is_emulated() || is_watched()) return;
    at::Tensor x = at::full({4096, 4096}, 1e-3, floats());
    for (int i = 0; i < 8; ++i) x = at::matmul(x, x).mul_(0.1);
  }
};

/// Content of value `i`, different from every other's.
at::Tensor content(std::int64_t i, std::int64_t size, const at::TensorOptions& options) {
  return at::arange(size, options).mul_(static_cast<double>(i + 1)).add_(static_cast<double>(i));
}

/// Which share of the offload tier is a file.
class GpuCopiesTo : public GpuCopies, public testing::WithParamInterface<double> {
 protected:
  static tier::OffloadStoreOptions store_of(Bytes room) {
    const double share = static_cast<double>(room.count()) * GetParam();
    const Bytes disk(static_cast<std::int64_t>(share));
    return {.host = room - disk, .disk = disk, .checksums = true};
  }
};

TEST_P(GpuCopiesTo, ValuesComeBackEqualWhenTheirBytesAreUsedAgainAtOnce) {
  const std::int64_t elements =
      (is_emulated() || is_watched() ? kMiB : 4 * kMiB) + 3;  // some MiB, not a round number
  const int rounds = is_watched() ? 8 : 40;
  constexpr int kOffloaded = 3;
  // Room for one value more than is offloaded at a time: allocations are soon reused.
  const Bytes room = Bytes(elements * 4) * (kOffloaded + 1);
  const auto copies = cuda().make_copies(store_of(room));
  std::deque<std::pair<Key, at::Tensor>> offloaded;
  int reused = 0;
  const auto bring_back = [&] {
    const auto [key, value] = offloaded.front();
    offloaded.pop_front();
    copies->prefetch(key);
    // The bytes that the copy in is about to take are still being written.
    at::full({elements}, -1.0, floats());
    EXPECT_EQ(copies->begin_next(), key);
    compute_for_long();
    copies->await(key);
    EXPECT_TRUE(at::equal(value, content(key.layer, elements, floats()))) << "value " << key.layer;
  };
  for (int i = 0; i < rounds; ++i) {
    compute_for_long();
    const at::Tensor value = content(i, elements, floats());  // not computed yet when offloaded
    const Key key{.tape = false, .layer = i, .micro_batch = 0};
    copies->offload(key, {value.storage()});
    const void* const bytes = value.const_data_ptr();
    EXPECT_EQ(copies->release_next(), key);
    const at::Tensor next = at::full({elements}, -2.0, floats());  // overwrites them at once
    reused += next.const_data_ptr() == bytes ? 1 : 0;
    offloaded.emplace_back(key, value);
    if (offloaded.size() == kOffloaded) bring_back();
  }
  while (!offloaded.empty()) bring_back();
  copies->drain();
  // Under the sanitizer the driver decides whose bytes a block gets.
  if (!is_watched()) {
    EXPECT_GT(reused, rounds / 2) << "else nothing was put to the test";
  }
  EXPECT_EQ(copies->take_moved(), Bytes(rounds * elements * 4));
  EXPECT_LE(copies->offload_peak(), room);
}

INSTANTIATE_TEST_SUITE_P(Tiers, GpuCopiesTo, testing::Values(0.0, 1.0, 0.6));

TEST_P(GpuCopiesTo, SpansAreInOrderAndTakeTime) {
  const auto copies = cuda().make_copies(store_of(Bytes(32 * kMiB)));
  const at::Tensor value = at::ones({8 * kMiB}, floats());
  const Key key{.tape = false, .layer = 1, .micro_batch = 0};
  copies->offload(key, {value.storage()});
  copies->release_next();
  copies->prefetch(key);
  copies->begin_next();
  copies->await(key);
  copies->drain();

  const auto spans = copies->take_spans();

  ASSERT_EQ(spans.out.size(), 1U);
  ASSERT_EQ(spans.in.size(), 1U);
  EXPECT_LT(spans.out[0].begin, spans.out[0].end);
  EXPECT_LE(spans.out[0].end, spans.in[0].begin);
  EXPECT_LT(spans.in[0].begin, spans.in[0].end);
}

TEST_F(GpuCopies, AFullOffloadTierSaysWhatIsLeftAndIsForgottenWhole) {
  const auto copies = cuda().make_copies(memory(kMiB));
  const at::Tensor small = at::ones({1024}, floats()), large = at::ones({kMiB}, floats());
  try {
    copies->offload({false, 1, 0}, {small.storage(), large.storage()});
    FAIL() << "there is no room";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("the offload tier is full: asked for 4.00 MiB"));
  }
  copies->abandon();
  copies->offload({false, 1, 0}, {at::ones({kMiB / 4}, floats()).storage()});  // the whole tier
  copies->drain();
}

/// Saves several tensors for its backward.
class Block final : public model::Layer {
 public:
  explicit Block(const at::TensorOptions& options)
      : up_(add_parameter("up", at::randn({512, 2048}, options).mul_(0.02))),
        down_(add_parameter("down", at::randn({2048, 512}, options).mul_(0.02))) {}

  model::Values forward(const model::Values& input, const model::Context& /*context*/) override {
    return {at::matmul(at::gelu(at::matmul(input[0], up_)), down_).tanh()};
  }

 private:
  at::Tensor up_, down_;
};

TEST_F(GpuCopies, ATapeThatWasOffloadedGivesTheSameGradients) {
  at::manual_seed(3);
  Block block(floats());
  const at::Tensor input = at::randn({4096, 512}, floats());
  const at::Tensor gradient = at::randn({4096, 512}, floats());
  const auto gradients = [&](bool moves) {
    for (const model::Parameter& parameter : block.parameters())
      parameter.value.mutable_grad() = at::zeros_like(parameter.value);
    const auto copies = cuda().make_copies(memory(256 * kMiB));
    model::Tape tape =
        model::taped_forward(block, {input}, {}, model::Precision::kFloat32,
                             model::InputGradient::kNeeded, model::TapeUse::kMayMove);
    EXPECT_FALSE(tape.storages.empty());
    if (moves) {
      const Key key{.tape = true, .layer = 1, .micro_batch = 0};
      copies->offload(key, tape.storages);
      copies->release_next();
      // Other tensors take the bytes and overwrite them.
      for (int i = 0; i < 4; ++i) at::full({4096, 2048}, 7.0, floats());
      copies->prefetch(key);
      copies->begin_next();
      compute_for_long();
      copies->await(key);
    }
    std::vector<at::Tensor> result = model::backward(std::move(tape), {gradient});
    for (const model::Parameter& parameter : block.parameters())
      result.push_back(parameter.value.grad().clone());
    return result;
  };

  const auto stayed = gradients(false), moved = gradients(true);

  ASSERT_EQ(stayed.size(), 3U);
  for (std::size_t i = 0; i < stayed.size(); ++i) EXPECT_TRUE(at::equal(stayed[i], moved[i]));
}

}  // namespace
}  // namespace trireme::device
