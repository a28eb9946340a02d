// Weight streaming, trained weights with their gradients: where they are changes no bit of the
// result.
// SPDX-License-Identifier: Apache-2.0
#include "state/streamed_weights.h"

#include "small_runs.h"
#include "state/stage.h"
#include "support/temporary_folder.h"

#include "trireme/chain/chain.h"
#include "trireme/checkpoint/store.h"
#include "trireme/core/text.h"
#include "trireme/runtime/copies.h"

#include <gtest/gtest.h>

#include <functional>

namespace trireme::runtime {
namespace {

using support::TemporaryFolder;

/// Adapters on four frozen blocks.
config::GptSpec deep_with_adapters() {
  config::GptSpec spec = with_adapters();
  spec.blocks = 4;
  return spec;
}

/// The same, all of it trained.
config::GptSpec deep() {
  config::GptSpec spec = small_gpt();
  spec.blocks = 4;
  return spec;
}

config::JobSpec job_of(config::ModelSpec model, const std::string& precision) {
  config::JobSpec job = small_job(std::move(model));
  job.train.precision = precision;
  job.train.clip_norm = 0.5;
  return job;
}

void expect_same(const RunSummary& found, const RunSummary& expected) {
  EXPECT_EQ(found.parameters_digest, expected.parameters_digest);
  EXPECT_EQ(found.losses_digest, expected.losses_digest);
}

TEST(StreamedWeights, GiveTheBitsOfWeightsOnTheDevice) {
  config::LlamaSpec llama{
      .blocks = 3, .width = 32, .heads = 4, .kv_heads = 2, .context = 16, .vocabulary = 40};
  llama.lora_rank = 3;
  config::GptSpec top = small_gpt();
  top.trained = {"block1.*"};
  config::LlamaSpec trained = llama;
  trained.lora_rank = 0;
  for (const config::ModelSpec& model :
       {config::ModelSpec(deep_with_adapters()), {llama}, {top}, {deep()}, {trained}}) {
    for (const char* const precision : {"float32", "bfloat16", "bfloat16_weights"}) {
      SCOPED_TRACE(precision);
      const config::JobSpec job = job_of(model, precision);
      const RunSummary reference = run_small(job, {});
      EXPECT_EQ(reference.ranks[0].offloaded_weights, Bytes(0));
      for (const bool recompute : {false, true}) {
        for (const bool to_file : {false, true}) {
          const RunSummary run =
              run_small(job, {.recompute = recompute, .to_file = to_file, .streams = true});
          EXPECT_GT(run.ranks[0].offloaded_weights, Bytes(0));
          expect_same(run, reference);
        }
      }
    }
  }
}

class SplitStreams : public testing::TestWithParam<bool> {};

TEST_P(SplitStreams, GiveTheBitsForEverySplit) {
  const config::JobSpec job =
      job_of(GetParam() ? deep() : deep_with_adapters(), "bfloat16_weights");
  const RunSummary reference = run_small(job, {}), of_two = run_small(job, {.replicas = 2});
  for (const std::vector<int>& cut : {std::vector<int>{1}, {4}, {2, 5}}) {
    expect_same(run_small(job, {.cut = cut, .recompute = true, .streams = true}), reference);
    expect_same(
        run_small(job, {.cut = cut, .mixed = true, .offloaded = Bytes(1 << 30), .streams = true}),
        reference);
    expect_same(run_small(job, {.cut = cut, .schedule = "gpipe", .streams = true}), reference);
    expect_same(run_small(job, {.cut = cut, .replicas = 2, .streams = true}), of_two);
  }
  expect_same(run_small(job, {.cut = {2, 4}, .ranks = {0, 1, 0}, .streams = true}), reference);
  expect_same(run_small(job, {.recompute = true, .replicas = 2, .streams = true, .group = 2}),
              of_two);
  for (const int group : {2, 3, 4}) {
    expect_same(run_small(job, {.recompute = true, .streams = true, .group = group}), reference);
    expect_same(run_small(job, {.offloaded = Bytes(1 << 30), .streams = true, .group = group}),
                reference);
    expect_same(run_small(job, {.cut = {3}, .recompute = true, .streams = true, .group = group}),
                reference);
  }
  for (const int at_once : {3, 5, 100})
    expect_same(run_small(job, {.recompute = at_once == 3, .streams = true, .at_once = at_once}),
                reference);
}

INSTANTIATE_TEST_SUITE_P(StreamedWeights, SplitStreams, testing::Bool(),
                         [](const auto& test) { return test.param ? "trained" : "frozen"; });

// Without clipping, no norm is noted; without momentum, there is no state.
TEST(StreamedWeights, AreTrainedByAnyOptimizer) {
  for (const double momentum : {0.0, 0.9}) {
    for (const char* const precision : {"float32", "bfloat16_weights"}) {
      config::JobSpec job = job_of(small_mlp(), precision);
      job.train.clip_norm = 0;
      job.train.optimizer.kind = "sgd";
      job.train.optimizer.momentum = momentum;
      const RunSummary reference = run_small(job, {});
      expect_same(run_small(job, {.streams = true}), reference);
      expect_same(run_small(job, {.offloaded = Bytes(1 << 30), .streams = true}), reference);
    }
  }
}

/// What each streamed layer of a stage has.
std::vector<chain::OffloadWeights> sizes_in(Stage& stage) {
  std::map<int, chain::OffloadWeights> of_layer;
  for (const StageParameter& parameter : stage.parameters()) {
    if (!parameter.is_streamed) continue;
    chain::OffloadWeights& size = of_layer[parameter.layer];
    size.weights += Bytes(static_cast<std::int64_t>(parameter.weight.nbytes()));
    size.is_trained = parameter.is_trained;
    if (parameter.is_trained)
      size.gradients = Bytes(
          static_cast<std::int64_t>(stage.streamed_gradients(parameter.layer)->flat().nbytes()));
  }
  std::vector<chain::OffloadWeights> sizes;
  for (const auto& [layer, size] : of_layer) sizes.push_back(size);
  return sizes;
}

TEST_P(SplitStreams, AreOnTheDeviceTwoLayersAtATime) {
  for (const char* const precision : {"float32", "bfloat16_weights"}) {
    const config::JobSpec job = job_of(GetParam() ? deep() : deep_with_adapters(), precision);
    std::vector<chain::OffloadWeights> sizes;
    const auto look = [&](int /*rank*/, Trainer& trainer) { sizes = sizes_in(trainer.stage()); };
    const RunSummary held = run_small(job, {}), streamed = run_small(job, {.streams = true}, look);
    Bytes all;
    for (const chain::OffloadWeights& size : sizes) all += size.all();
    const Bytes saved = all - chain::weights_window(sizes, 2);
    EXPECT_GT(saved, Bytes(0));
    EXPECT_EQ(streamed.ranks[0].offloaded_weights, all);
    EXPECT_EQ(held.ranks[0].static_bytes - streamed.ranks[0].static_bytes, saved);
    // Or more, if the peak is while smaller ones are on the device.
    EXPECT_GE(held.ranks[0].peak - streamed.ranks[0].peak, saved);
    EXPECT_LE(held.ranks[0].peak - streamed.ranks[0].peak, all);
  }
}

// Validation runs another program, which may begin with any layer.
TEST_P(SplitStreams, ServeValidationToo) {
  config::JobSpec job = job_of(GetParam() ? deep() : deep_with_adapters(), "bfloat16_weights");
  job.train.validate_every = 1;
  const RunSummary reference = run_small(job, {}), run = run_small(job, {.streams = true});
  expect_same(run, reference);
  EXPECT_EQ(run.validation_loss, reference.validation_loss);
}

TEST_P(SplitStreams, AreSavedAndTakenUpLikeAnyOther) {
  for (const char* const precision : {"float32", "bfloat16_weights"}) {
    config::JobSpec job = job_of(GetParam() ? deep() : deep_with_adapters(), precision);
    job.train.steps = 6;
    const TemporaryFolder held, streamed;
    const auto every_three = [](const TemporaryFolder& folder) {
      return Checkpointing{.folder = folder.path(), .every = 3, .job = "train: {}\n", .data = ""};
    };
    const RunSummary reference = run_small(job, {}, {}, device::cpu(), every_three(held));
    run_small(job, {.cut = {3}, .streams = true}, {}, device::cpu(), every_three(streamed));
    for (const char* const step : {"step-3", "step-6"}) {
      const checkpoint::Manifest of_held = checkpoint::load_manifest(held / step),
                                 of_streamed = checkpoint::load_manifest(streamed / step);
      ASSERT_EQ(of_held.tensors.size(), of_streamed.tensors.size());
      for (const auto& [name, entry] : of_held.tensors)
        EXPECT_EQ(of_streamed.tensors.at(name).digest, entry.digest) << name;
    }
    for (const Split& after : {Split{.cut = {2}, .streams = true}, Split{.cut = {4}},
                               Split{.to_file = true, .streams = true},
                               Split{.offloaded = Bytes(1 << 30), .streams = true}}) {
      Checkpointing resumed;
      resumed.resume = streamed / "step-3";
      expect_same(run_small(job, after, {}, device::cpu(), resumed), reference);
    }
  }
}

TEST(StreamedWeights, BeginWithThoseOfAFileLikeAnyOther) {
  const TemporaryFolder folder;
  config::GptSpec plain = deep_with_adapters();
  plain.lora_rank = 0;
  config::JobSpec job = job_of(deep_with_adapters(), "bfloat16_weights");
  job.weights = train_and_export(job_of(plain, "float32"), folder).weights.string();
  expect_same(run_small(job, {.cut = {3}, .streams = true}), run_small(job, {}));
  // And all of it trained.
  for (const char* const precision : {"float32", "bfloat16_weights"}) {
    config::JobSpec full = job_of(plain, precision);
    full.weights = job.weights;
    for (const Bytes offloaded : {Bytes(0), Bytes(1 << 30)})
      expect_same(run_small(full, {.cut = {3}, .offloaded = offloaded, .streams = true}),
                  run_small(full, {}));
  }
}

TEST(StreamedWeights, ThatAreNotHeldAreRefused) {
  StreamedWeights weights({.numbers = {2, 3}}, std::make_unique<Copies>(tier::OffloadStoreOptions{
                                                   .host = Bytes(4096), .disk = {}}));
  const at::Tensor two = at::full({64}, 2.0F), three = at::full({64}, 3.0F),
                   gradients = at::full({64}, 5.0F);
  weights.add(2, {two});
  weights.add(3, {three}, gradients);
  EXPECT_EQ(weights.bytes(), Bytes(3 * 256));
  EXPECT_EQ(two.storage().data(), nullptr);
  EXPECT_EQ(gradients.storage().data(), nullptr);
  EXPECT_THROW(weights.await(2, false), LogicError);
  EXPECT_EQ(weights.moves_to({{2}, {3}}).size(), 2U);
  weights.hold({{2}, {3}});
  EXPECT_THROW(weights.await(3, true), LogicError);
  weights.await(2, false);
  EXPECT_EQ(two.sum().item<float>(), 128);
  weights.change(3, [&] { at::Tensor(three).fill_(4); });
  weights.close();
  EXPECT_EQ(three.storage().data(), nullptr);
  using Gradients = program::HeldLayer::Gradients;
  EXPECT_EQ(weights.moves_to({{3, true, Gradients::kSums}}).size(), 2U);
  weights.hold({{3, true, Gradients::kSums}});
  weights.await(3, false);
  weights.await(3, true);
  EXPECT_EQ(three.sum().item<float>(), 256);
  EXPECT_EQ(gradients.sum().item<float>(), 320);
  EXPECT_EQ(two.storage().data(), nullptr);
}

}  // namespace
}  // namespace trireme::runtime
