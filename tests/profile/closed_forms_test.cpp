// Bytes computed by hand from what LibTorch's operators save for backward.
//
// Letters: B examples, T tokens, C width, H heads, V vocabulary; 4 bytes per float.
// SPDX-License-Identifier: Apache-2.0
#include "small_jobs.h"

#include "trireme/profile/tied_weights.h"

#include <gtest/gtest.h>

namespace trireme::profile {
namespace {

constexpr std::int64_t B = 8;

chain::Chain measured_mlp(const config::MlpSpec& spec, const char* precision = "float32") {
  config::JobSpec job = job_of(spec, B);
  job.train.precision = precision;
  return measured(job);
}

TEST(MlpLayer, KeepsItsPreactivationAndItsOutput) {
  const chain::Chain chain = measured_mlp({.inputs = 12, .widths = {48, 32}, .classes = 5});

  EXPECT_EQ(chain.input, Bytes(B * 12 * 4));
  EXPECT_EQ(chain.layer(1).output, Bytes(B * 48 * 4));
  EXPECT_EQ(chain.layer(2).output, Bytes(B * 32 * 4));
  // The linear part saves its input, which is held anyway, and its weight; GELU saves its input.
  EXPECT_EQ(chain.layer(1).tape, Bytes(2 * B * 48 * 4));
  EXPECT_EQ(chain.layer(2).tape, Bytes(2 * B * 32 * 4));
}

TEST(MlpLayer, NeedsItsPreactivationForAMomentWhenUntaped) {
  const chain::Chain chain = measured_mlp({.inputs = 12, .widths = {48, 32}, .classes = 5});

  EXPECT_EQ(chain.layer(2).forward_transient, Bytes(B * 32 * 4));
  EXPECT_EQ(chain.layer(2).tape_transient, Bytes(0));
}

TEST(MlpLayer, MakesOnlyItsPreactivationAgain) {
  const chain::Chain chain = measured_mlp({.inputs = 12, .widths = {48, 32}, .classes = 5});

  // GELU has saved its input, so it is not run again; its backward adds only the gradient of that
  // to what is freed meanwhile.
  EXPECT_EQ(chain.layer(2).retape->tape, Bytes(B * 32 * 4));
  EXPECT_EQ(chain.layer(2).retape->tape_transient, Bytes(0));
}

TEST(MlpLayer, LeavesItsInputAndTheGradientOfItsPreactivationForItsWeight) {
  const chain::Chain chain = measured_mlp({.inputs = 12, .widths = {48, 32}, .classes = 5});

  for (const auto& [layer, in, out] : {std::tuple(1, 12, 48), {2, 48, 32}, {3, 32, 5}}) {
    const chain::SplitBackward split = chain.layer(layer).split.value();
    EXPECT_EQ(split.pending, Bytes(B * (in + out) * 4)) << layer;
    EXPECT_EQ(split.weights_transient, Bytes(in * out * 4)) << layer;
    EXPECT_LE(split.weights, chain.layer(layer).backward);
  }
  // The output in the tape is freed first, then GELU's input; the gradients of the preactivation,
  // of the layer's input and of its bias take their place.
  EXPECT_EQ(chain.layer(2).split->input_transient,
            Bytes(B * 32 * 4 + B * 48 * 4 + 32 * 4 - 2 * B * 32 * 4));
}

TEST(MlpLayer, DropoutKeepsOneByteForEachValue) {
  const chain::Chain chain =
      measured_mlp({.inputs = 12, .widths = {48}, .classes = 5, .dropout = 0.1});

  EXPECT_EQ(chain.layer(1).tape, Bytes(2 * B * 48 * 4 + B * 48));
}

TEST(MlpLayer, BatchNormKeepsItsInputAndTwoNumbersForEachColumn) {
  const chain::Chain chain =
      measured_mlp({.inputs = 12, .widths = {48}, .classes = 5, .batch_norm = true});

  EXPECT_EQ(chain.layer(1).tape, Bytes(3 * B * 48 * 4 + 2 * 48 * 4));
  // Weight, bias, scale, shift; running mean and variance are held as well, but have no gradient.
  EXPECT_EQ(chain.layer(1).parameters, Bytes((48 * 12 + 48 + 2 * 48 + 2 * 48) * 4));
  EXPECT_EQ(chain.layer(1).gradients, Bytes((48 * 12 + 48 + 2 * 48) * 4));
}

TEST(MlpLayer, BatchNormIsCopiedForAMoment) {
  const chain::Chain with =
      measured_mlp({.inputs = 12, .widths = {48}, .classes = 5, .batch_norm = true});

  // The tape of a recomputed forward comes with a copy of mean and variance only.
  EXPECT_EQ(with.layer(1).tape_transient, Bytes(2 * 48 * 4));
}

TEST(MlpLayer, HandsOnHalfTheBytesInBfloat16) {
  const chain::Chain chain =
      measured_mlp({.inputs = 12, .widths = {48, 32}, .classes = 5}, "bfloat16");

  EXPECT_EQ(chain.layer(1).output, Bytes(B * 48 * 2));
  // The second layer saves the cast of its weight; its input is in bfloat16 already.
  EXPECT_EQ(chain.layer(2).tape, Bytes(2 * B * 32 * 2 + 48 * 32 * 2));
}

TEST(MlpLayer, WeightsInBfloat16NeedNoCasts) {
  const chain::Chain chain =
      measured_mlp({.inputs = 12, .widths = {48, 32}, .classes = 5}, "bfloat16_weights");

  const std::int64_t weights = 48 * 32 + 32;
  EXPECT_EQ(chain.layer(2).tape, Bytes(2 * B * 32 * 2));
  EXPECT_EQ(chain.layer(2).parameters, Bytes(2 * weights));
  EXPECT_EQ(chain.layer(2).gradients, Bytes(4 * weights));
  EXPECT_EQ(chain.layer(2).optimizer, Bytes(3 * 4 * weights));  // masters, moments
  // The data set's input is float32; the first layer saves it in the type that it computes with.
  EXPECT_EQ(chain.input, Bytes(B * 12 * 4));
  EXPECT_EQ(chain.layer(1).tape, Bytes(2 * B * 48 * 2 + B * 12 * 2));
}

/// C is chosen so that rows of gradients need padding to cache lines.
constexpr std::int64_t T = 6, C = 20, H = 2, V = 30;

chain::Chain measured_gpt(double dropout = 0, config::OptimizerSpec optimizer = {},
                          const char* precision = "float32") {
  config::JobSpec job = job_of(config::GptSpec{.blocks = 2,
                                               .width = C,
                                               .heads = H,
                                               .context = T,
                                               .vocabulary = V,
                                               .dropout = dropout,
                                               .tied_head = true},
                               B);
  job.train.optimizer = optimizer;
  job.train.precision = precision;
  return measured(job);
}

TEST(GptLayer, TapesWeighWhatTheirOperatorsSave) {
  const chain::Chain chain = measured_gpt();

  const std::int64_t norm = 2 * B * T * 4 + B * T * C * 4;  // mean, deviation, result
  EXPECT_EQ(chain.input, Bytes(B * T * 8));
  EXPECT_EQ(chain.layer(1).tape, Bytes(B * T * C * 4));
  // Norm, q k v, attention's result, its log-sum-exp, output.
  EXPECT_EQ(chain.layer(2).tape,
            Bytes(norm + 3 * B * T * C * 4 + B * T * C * 4 + B * H * T * 4 + B * T * C * 4));
  // Norm, four times the width before and after GELU, output.
  EXPECT_EQ(chain.layer(3).tape, Bytes(norm + 2 * B * T * 4 * C * 4 + B * T * C * 4));
  // Norm, log-probabilities, their summed weight, loss; the target.
  EXPECT_EQ(chain.layer(6).tape, Bytes(norm + B * T * V * 4 + 4 + 4 + B * T * 8));
  EXPECT_EQ(chain.layer(6).output, Bytes(4));
}

TEST(GptLayer, TapesOfBfloat16WeightsWeighHalf) {
  const chain::Chain chain = measured_gpt(0, {}, "bfloat16_weights");

  const std::int64_t norm = 2 * B * T * 2 + B * T * C * 2;
  EXPECT_EQ(chain.layer(1).tape, Bytes(B * T * C * 2));
  EXPECT_EQ(chain.layer(3).tape, Bytes(norm + 2 * B * T * 4 * C * 2 + B * T * C * 2));
  // Norm, gradients of the logits, loss; the target.
  EXPECT_EQ(chain.layer(6).tape, Bytes(norm + B * T * V * 2 + 4 + B * T * 8));
}

TEST(GptLayer, LeanTapesKeepWhatProductsGive) {
  config::JobSpec job = job_of(
      config::GptSpec{.blocks = 2, .width = C, .heads = H, .context = T, .vocabulary = V}, B);
  job.memory.tapes = "lean";
  const chain::Chain chain = measured(job);

  const std::int64_t norm = 2 * B * T * 4;  // mean, deviation
  EXPECT_EQ(chain.layer(2).tape,
            Bytes(norm + 3 * B * T * C * 4 + B * T * C * 4 + B * H * T * 4 + B * T * C * 4));
  EXPECT_EQ(chain.layer(3).tape, Bytes(norm + B * T * 4 * C * 4 + B * T * C * 4));
}

TEST(GptLayer, DropoutAddsAByteForEachValueOfItsOutput) {
  const chain::Chain with = measured_gpt(0.1), without = measured_gpt(0);

  for (int i = 1; i <= 5; ++i)
    EXPECT_EQ(with.layer(i).tape - without.layer(i).tape, Bytes(B * T * C)) << i;
  EXPECT_EQ(with.layer(6).tape, without.layer(6).tape);
}

TEST(GptLayer, ParametersAreThoseOfThePaper) {
  const chain::Chain chain = measured_gpt();

  const std::int64_t norm = 2 * C;
  EXPECT_EQ(chain.layer(1).parameters, Bytes((V * C + T * C) * 4));
  EXPECT_EQ(chain.layer(2).parameters, Bytes((norm + 3 * C * C + 3 * C + C * C + C) * 4));
  EXPECT_EQ(chain.layer(3).parameters, Bytes((norm + 4 * C * C + 4 * C + 4 * C * C + C) * 4));
  EXPECT_EQ(chain.layer(6).parameters, Bytes((norm + V * C) * 4 + B * T * 8));  // and the target
}

TEST(GptLayer, GradientsBeginOnCacheLines) {
  const chain::Chain chain = measured_gpt();

  // Floats: norm 20 + 20, q k v 1200 + 60, projection 400 + 20, each up to a multiple of 16.
  EXPECT_EQ(chain.layer(2).gradients, Bytes((32 + 32 + 1200 + 64 + 400 + 32) * 4));
}

// What another layer shares is not offloaded: the token table, which embedding and head tie.
TEST(GptLayer, WhatMayLeaveIsWhatNoOtherLayerHas) {
  const chain::Chain chain = measured_gpt();

  EXPECT_EQ(chain.layer(1).may_leave().weights, Bytes(T * C * 4));
  EXPECT_EQ(chain.layer(2).trained, chain.layer(2).parameters);
  EXPECT_EQ(chain.layer(2).trained_gradients, chain.layer(2).gradients);
  EXPECT_TRUE(chain.layer(2).may_leave().is_trained);
  EXPECT_EQ(chain.layer(6).trained, Bytes(2 * C * 4));
  EXPECT_EQ(chain.layer(6).trained_gradients, Bytes(2 * 32 * 4));
  config::GptSpec tuned{.blocks = 2, .width = C, .heads = H, .context = T, .vocabulary = V};
  tuned.lora_rank = 2;
  const chain::LayerCost block = measured(job_of(tuned, B)).layer(2);
  EXPECT_EQ(block.may_leave().weights, chain.layer(2).parameters);
  EXPECT_GT(block.gradients, Bytes(0));
  EXPECT_EQ(block.may_leave().gradients, Bytes(0));
  EXPECT_FALSE(block.may_leave().is_trained);
}

TEST(GptLayer, AdamwHoldsTwoMomentsPerParameter) {
  EXPECT_EQ(measured_gpt().layer(2).optimizer, Bytes(2 * 1720 * 4));
}

TEST(GptLayer, SgdHoldsItsMomentumIfAny) {
  EXPECT_EQ(measured_gpt(0, {.kind = "sgd", .momentum = 0.9}).layer(2).optimizer, Bytes(1720 * 4));
  EXPECT_EQ(measured_gpt(0, {.kind = "sgd", .momentum = 0}).layer(2).optimizer, Bytes(0));
}

/// Bytes of a residual, and of the norm's result with its mean and deviation.
constexpr std::int64_t kResidual = B * T * C * 4;
constexpr std::int64_t kNorm = 2 * B * T * 4 + kResidual;

TEST(FineGpt, CopiesTheResidualThatItHandsThrough) {
  config::GptSpec spec{
      .blocks = 2, .width = C, .heads = H, .context = T, .vocabulary = V, .grain = "fine"};
  const chain::Chain chain = measured(job_of(spec, B));

  // q k v and x; attended and x; x; up and x; x.
  EXPECT_EQ(chain.layer(2).output, Bytes(4 * kResidual));
  EXPECT_EQ(chain.layer(3).output, Bytes(2 * kResidual));
  EXPECT_EQ(chain.layer(4).output, Bytes(kResidual));
  EXPECT_EQ(chain.layer(5).output, Bytes(5 * kResidual));
  EXPECT_EQ(chain.layer(6).output, Bytes(kResidual));
  EXPECT_EQ(chain.layer(2).tape, Bytes(kNorm + 4 * kResidual));
  EXPECT_EQ(chain.layer(3).tape, Bytes(2 * kResidual + B * H * T * 4));
  EXPECT_EQ(chain.layer(4).tape, Bytes(kResidual));
  EXPECT_EQ(chain.layer(5).tape, Bytes(kNorm + 5 * kResidual));
  EXPECT_EQ(chain.layer(6).tape, Bytes(4 * kResidual + kResidual));
}

TEST(LlamaLayer, TapesWeighWhatTheirOperatorsSave) {
  constexpr std::int64_t G = 1, D = C / H, hidden = 24;
  config::LlamaSpec spec{.blocks = 2,
                         .width = C,
                         .heads = H,
                         .kv_heads = G,
                         .hidden = hidden,
                         .context = T,
                         .vocabulary = V};
  const chain::Chain chain = measured(job_of(spec, B));

  const std::int64_t norm = B * T * 4 + kResidual;  // a number per token, result
  const std::int64_t angles = 2 * T * D / 2 * 4;
  // Norm, q, k, v, cosines and sines, attention's result, its log-sum-exp, output.
  EXPECT_EQ(chain.layer(2).tape, Bytes(norm + kResidual + 2 * B * T * G * D * 4 + angles +
                                       kResidual + B * H * T * 4 + kResidual));
  // Norm, gate, up, their product, output.
  EXPECT_EQ(chain.layer(3).tape, Bytes(norm + 3 * B * T * hidden * 4 + kResidual));
  EXPECT_EQ(chain.layer(2).parameters, Bytes((C + C * C + 2 * G * D * C + C * C) * 4));
  EXPECT_EQ(chain.layer(3).parameters, Bytes((C + 3 * C * hidden) * 4));
}

TEST(ResnetLayer, KeepsTwoTensorsForEachConvolution) {
  constexpr std::int64_t W = 6, side = 8;
  const chain::Chain chain =
      measured(job_of(config::ResnetSpec{.depth = 18, .image_size = side, .width = W}, B));

  const std::int64_t map = B * W * side * side * 4, statistics = 2 * W * 4;
  EXPECT_EQ(chain.input, Bytes(B * 3 * side * side * 4));
  // The norm's input, its mean and deviation, the ReLU's output.
  EXPECT_EQ(chain.layer(1).tape, Bytes(2 * map + statistics));
  EXPECT_EQ(chain.layer(2).tape, Bytes(2 * (2 * map + statistics)));
  // The first block of the next group: a quarter of the positions, twice the channels, and a
  // shortcut without a ReLU.
  EXPECT_EQ(chain.layer(4).tape, Bytes(2 * (map + 2 * statistics) + map / 2 + 2 * statistics));
  EXPECT_EQ(chain.layer(4).output, Bytes(map / 2));
  // Means, their log-probabilities, the summed weight, the loss; the target.
  EXPECT_EQ(chain.layer(10).tape, Bytes(B * 8 * W * 4 + B * 10 * 4 + 4 + 4 + B * 8));
}

TEST(VggLayer, KeepsTheMaximaOfItsPool) {
  constexpr std::int64_t W = 6, side = 32;
  config::VggSpec spec{.depth = 11, .image_size = side, .width = W, .batch_norm = false};
  const chain::Chain chain = measured(job_of(spec, B));

  const std::int64_t map = B * W * side * side * 4;
  // The ReLU's output, the pool's result and 8 bytes for each of its values.
  EXPECT_EQ(chain.layer(1).tape, Bytes(map + map / 4 + 2 * map / 4));
  // Without a pool: the ReLU's output.
  EXPECT_EQ(chain.layer(3).tape, Bytes(4 * map / 16));
  EXPECT_EQ(chain.layer(3).output, Bytes(4 * map / 16));
}

TEST(TiedWeights, ShareValueAndStateOfTheirSecondUse) {
  config::GptSpec spec{.blocks = 2, .width = C, .heads = H, .context = T, .vocabulary = V};
  const model::ChainModel tied = model::make_gpt(spec);
  spec.tied_head = false;

  const Bytes weight(V * C * 4);
  const TiedWeights uses(tied, {});
  EXPECT_EQ(uses.shared({{1, 6}}).weights, weight);
  EXPECT_EQ(uses.shared({{1, 6}}).optimizer, 2 * weight);  // two moments
  EXPECT_EQ(uses.shared({{2, 6}}).all(), Bytes(0));        // the first use is elsewhere
  EXPECT_EQ(TiedWeights(model::make_gpt(spec), {}).shared({{1, 6}}).all(), Bytes(0));
  const TiedWeights lowered(tied, {.precision = "bfloat16_weights"});
  EXPECT_EQ(lowered.shared({{1, 6}}).weights, weight / 2);
  EXPECT_EQ(lowered.shared({{1, 6}}).optimizer, 3 * weight);
}

}  // namespace
}  // namespace trireme::profile
