// The loss of a head, at once and in parts, against LibTorch's operators.
// SPDX-License-Identifier: Apache-2.0
#include "device/linear_cross_entropy.h"

#include "trireme/model/chain.h"
#include "trireme/model/taped.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>

namespace trireme::model {
namespace {

constexpr std::int64_t kExamples = 3, kTokens = 7, kWidth = 16, kVocabulary = 50;

/// The loss of a head and its gradients.
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
  lower_weights(*head, precision);
  for (const Parameter& parameter : head->parameters()) {
    at::Tensor value = parameter.value;
    value.mutable_grad() = at::zeros_like(value, at::kFloat);
  }
  const at::Generator from = at::detail::createCPUGenerator(5);
  at::Tensor x = at::empty({kExamples, kTokens, kWidth}).normal_(0, 1, from);
  if (precision == Precision::kBfloat16Weights) x = x.to(at::kBFloat16);
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

TEST(LinearCrossEntropy, InPartsIsTheWholeWithItsGradientsToRounding) {
  expect_same_as_whole<config::GptSpec>(Precision::kFloat32, 1e-6);
  expect_same_as_whole<config::LlamaSpec>(Precision::kFloat32, 1e-6);
}

TEST(LinearCrossEntropy, InPartsIsTheWholeInBfloat16ToItsRounding) {
  expect_same_as_whole<config::GptSpec>(Precision::kBfloat16, 1e-2);
  expect_same_as_whole<config::GptSpec>(Precision::kBfloat16Weights, 1e-2);
  expect_same_as_whole<config::LlamaSpec>(Precision::kBfloat16Weights, 1e-2);
}

/// Error relative to the largest value.
double error(const at::Tensor& found, const at::Tensor& expected) {
  const at::Tensor exact = expected.to(at::kFloat);
  return ((found.to(at::kFloat) - exact).abs().max() / exact.abs().max()).item<double>();
}

TEST(LinearCrossEntropy, InBfloat16IsThatOfLibTorchInFloat32ToRounding) {
  const HeadRun exact = run_head(config::GptSpec{}, 1, Precision::kFloat32);
  for (const Precision precision : {Precision::kBfloat16, Precision::kBfloat16Weights}) {
    const HeadRun found = run_head(config::GptSpec{}, 1, precision);
    EXPECT_EQ(found.loss.scalar_type(), at::kFloat);
    EXPECT_LT(error(found.loss, exact.loss), 1e-3);
    EXPECT_LT(error(found.input_gradient, exact.input_gradient), 2e-2);
    for (std::size_t i = 0; i < exact.gradients.size(); ++i)
      EXPECT_LT(error(found.gradients[i], exact.gradients[i]), 2e-2) << i;
  }
}

/// Log-probabilities are computed in slices of rows.
TEST(LinearCrossEntropy, OfManyRowsIsThatOfLibTorch) {
  const at::Generator from = at::detail::createCPUGenerator(3);
  const at::Tensor x = at::empty({700, 4}).normal_(0, 1, from).to(at::kBFloat16).requires_grad_();
  const at::Tensor weight =
      at::empty({20'000, 4}).normal_(0, 1, from).to(at::kBFloat16).requires_grad_();
  const at::Tensor target = at::empty({700}, at::kLong).random_(0, 20'000, from);
  const at::Tensor wide_x = x.detach().to(at::kFloat).requires_grad_();
  const at::Tensor wide_weight = weight.detach().to(at::kFloat).requires_grad_();
  const at::Tensor exact = at::cross_entropy_loss(
      at::linear(wide_x, wide_weight).to(at::kBFloat16).to(at::kFloat), target);
  exact.backward();

  const at::Tensor loss = linear_cross_entropy(x, weight, {target, {}}, 1);
  loss.backward();
  EXPECT_LT(error(loss, exact), 1e-6);
  EXPECT_LT(error(x.grad(), wide_x.grad()), 1e-2);
  EXPECT_LT(error(weight.grad(), wide_weight.grad()), 1e-2);
}

/// Compares masked rows with a run without them, times the weight of each other row.
void expect_masked_rows_count_for_nothing(at::ScalarType type, int chunks, double tolerance) {
  const at::Generator from = at::detail::createCPUGenerator(3);
  const at::Tensor x = at::empty({700, 4}).normal_(0, 1, from).to(type).requires_grad_();
  const at::Tensor weight = at::empty({20'000, 4}).normal_(0, 1, from).to(type).requires_grad_();
  const at::Tensor counts = at::empty({700}).uniform_(0, 1, from) < 0.3;
  counts[0] = false;  // a part begins with a masked row
  const at::Tensor all = at::empty({700}, at::kLong).random_(0, 20'000, from);
  const at::Tensor few_x = x.detach().index({counts}).to(at::kFloat).requires_grad_();
  const at::Tensor wide_weight = weight.detach().to(at::kFloat).requires_grad_();
  const at::Tensor exact =
      at::cross_entropy_loss(at::linear(few_x, wide_weight).to(type).to(at::kFloat),
                             all.index({counts}), {}, at::Reduction::Sum) *
      0.01;
  exact.backward();

  const Targets targets{.classes_N = all.masked_fill(counts.logical_not(), kMasked),
                        .share = at::full({}, 0.01, at::kFloat)};
  const at::Tensor loss = linear_cross_entropy(x, weight, targets, chunks);
  loss.backward();
  EXPECT_EQ(loss.scalar_type(), at::kFloat);
  EXPECT_LT(error(loss, exact), 1e-5);
  EXPECT_LT(error(x.grad().index({counts}), few_x.grad()), tolerance);
  EXPECT_LT(error(weight.grad(), wide_weight.grad()), tolerance);
  EXPECT_TRUE(x.grad().index({counts.logical_not()}).eq(0).all().item<bool>());
  const at::NoGradGuard untaped;
  EXPECT_TRUE(at::equal(linear_cross_entropy(x, weight, targets, chunks), loss.detach()));
}

TEST(LinearCrossEntropy, OfMaskedRowsIsThatWithoutThem) {
  for (const int chunks : {1, 3}) {
    SCOPED_TRACE(chunks);
    expect_masked_rows_count_for_nothing(at::kFloat, chunks, 1e-5);
    expect_masked_rows_count_for_nothing(at::kBFloat16, chunks, 1e-2);
  }
}

TEST(LinearCrossEntropy, OfNothingButMaskedRowsIsZero) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const int chunks : {1, 3}) {
      const at::Tensor x = at::ones({6, 4}, type).requires_grad_();
      const at::Tensor weight = at::ones({8, 4}, type).requires_grad_();
      const at::Tensor loss = linear_cross_entropy(
          x, weight, {at::full({6}, kMasked, at::kLong), at::full({}, 0.5, at::kFloat)}, chunks);
      loss.backward();
      EXPECT_EQ(loss.item<double>(), 0);
      EXPECT_TRUE(x.grad().eq(0).all().item<bool>());
      EXPECT_TRUE(weight.grad().eq(0).all().item<bool>());
    }
  }
}

/// The gradient of a nearly certain target is 1 - p, far below a digit of p.
TEST(LinearCrossEntropy, KeepsTheGradientOfACertainTarget) {
  const at::Tensor weight = at::eye(2).mul_(8).to(at::kBFloat16).requires_grad_();
  const at::Tensor x = at::eye(2).narrow(0, 0, 1).to(at::kBFloat16).requires_grad_();
  const at::Tensor loss = linear_cross_entropy(x, weight, {at::zeros({1}, at::kLong), {}}, 1);
  loss.backward();

  const double missing = 1 / (1 + std::exp(8.0));                        // 1 - p of the target
  EXPECT_NEAR(loss.item<double>(), -std::log1p(-missing), 8 * 0x1p-24);  // 8 less 8, in float32
  EXPECT_NEAR(x.grad()[0][0].item<double>(), -8 * missing, 8 * missing / 100);
  EXPECT_NEAR(weight.grad()[0][0].item<double>(), -missing, missing / 100);
}

/// A frozen head's gradient would be as large as the head.
TEST(LinearCrossEntropy, OfAFrozenHeadKeepsAndGivesNoGradientOfIt) {
  const at::Generator from = at::detail::createCPUGenerator(3);
  const at::Tensor values = at::empty({40, 8}).normal_(0, 1, from).to(at::kBFloat16);
  const at::Tensor head = at::empty({60, 8}).normal_(0, 1, from).to(at::kBFloat16);
  const at::Tensor target = at::empty({40}, at::kLong).random_(0, 60, from);
  for (const int chunks : {1, 4}) {
    SCOPED_TRACE(chunks);
    const at::Tensor x = values.detach().clone().requires_grad_();
    const at::Tensor frozen_x = values.detach().clone().requires_grad_();
    const at::Tensor trained = head.detach().clone().requires_grad_();
    const at::Tensor frozen = head.detach().clone();
    linear_cross_entropy(x, trained, {target, {}}, chunks).backward();
    linear_cross_entropy(frozen_x, frozen, {target, {}}, chunks).backward();
    EXPECT_TRUE(at::equal(frozen_x.grad(), x.grad()));
    EXPECT_FALSE(frozen.grad().defined());

    const at::Tensor alone = head.detach().clone().requires_grad_();
    linear_cross_entropy(values, alone, {target, {}}, chunks).backward();
    EXPECT_TRUE(at::equal(alone.grad(), trained.grad()));
    EXPECT_FALSE(linear_cross_entropy(values, frozen, {target, {}}, chunks).requires_grad());
  }
}

}  // namespace
}  // namespace trireme::model
