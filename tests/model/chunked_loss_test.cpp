// A head whose logits are made in parts, beside one that makes them at once.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/model/chain.h"
#include "trireme/model/taped.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

namespace trireme::model {
namespace {

constexpr std::int64_t kExamples = 3, kTokens = 7, kWidth = 16, kVocabulary = 50;

/// What a head gives and leaves behind.
struct HeadRun {
  at::Tensor loss, input_gradient;
  Values gradients;
};

template <class Spec>
HeadRun run_head(Spec spec, int chunks, Precision precision) {
  spec.blocks = 1;
  spec.width = kWidth;
  spec.heads = 2;
  spec.context = kTokens;
  spec.vocabulary = kVocabulary;
  spec.loss_chunks = chunks;
  const ChainModel model = make_model(config::ModelSpec(spec));
  const auto head = model.layers.back().build(Seeds(1, model.length()));
  for (const Parameter& parameter : head->parameters()) {
    at::Tensor value = parameter.value;
    value.mutable_grad() = at::zeros_like(value);
  }
  const at::Generator from = at::detail::createCPUGenerator(5);
  const at::Tensor x = at::empty({kExamples, kTokens, kWidth}).normal_(0, 1, from);
  const at::Tensor target =
      at::empty({kExamples, kTokens}, at::kLong).random_(0, kVocabulary, from);
  const Context context{.generator = from, .training = true, .target = {target}};
  Tape tape = taped_forward(*head, {x}, context, precision, InputGradient::kNeeded);
  HeadRun run{.loss = tape.outputs.at(0).clone(), .input_gradient = {}, .gradients = {}};
  EXPECT_TRUE(at::equal(run.loss, untaped_forward(*head, {x}, context, precision).at(0)))
      << "with and without a tape";
  run.input_gradient = backward(std::move(tape), {at::full_like(run.loss, 0.25)}).at(0);
  for (const Parameter& parameter : head->parameters())
    run.gradients.push_back(parameter.value.grad());
  return run;
}

template <class Spec>
void expect_same_as_whole(Precision precision, double tolerance) {
  const HeadRun whole = run_head(Spec{}, 1, precision);
  for (const int chunks : {2, 3, 21, 1000}) {
    SCOPED_TRACE(chunks);
    const HeadRun parts = run_head(Spec{}, chunks, precision);
    EXPECT_EQ(parts.loss.scalar_type(), at::kFloat);
    EXPECT_TRUE(at::allclose(parts.loss, whole.loss.to(at::kFloat), tolerance, tolerance));
    EXPECT_TRUE(at::allclose(parts.input_gradient, whole.input_gradient, tolerance, tolerance));
    ASSERT_EQ(parts.gradients.size(), whole.gradients.size());
    for (std::size_t i = 0; i < parts.gradients.size(); ++i)
      EXPECT_TRUE(at::allclose(parts.gradients[i], whole.gradients[i], tolerance, tolerance)) << i;
  }
}

TEST(ChunkedLoss, IsTheWholeLossWithItsGradientsToRounding) {
  expect_same_as_whole<config::GptSpec>(Precision::kFloat32, 1e-6);
  expect_same_as_whole<config::LlamaSpec>(Precision::kFloat32, 1e-6);
}

TEST(ChunkedLoss, IsTheWholeLossUnderAutocastToItsRounding) {
  expect_same_as_whole<config::GptSpec>(Precision::kBfloat16, 1e-2);
}

}  // namespace
}  // namespace trireme::model
