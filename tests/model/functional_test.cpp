// SPDX-License-Identifier: Apache-2.0
#include "trireme/model/functional.h"

#include "built.h"

#include "trireme/core/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <map>

namespace trireme::model {
namespace {

at::Tensor random(at::IntArrayRef sizes, std::uint64_t seed) {
  return at::empty(sizes, at::kDouble).normal_(0, 1, at::detail::createCPUGenerator(seed));
}

/// Gradients of <result, direction> by LibTorch.
Values gradients(const at::Tensor& result, const Values& inputs) {
  return torch::autograd::grad({(result * random(result.sizes(), 99)).sum()}, inputs);
}

void expect_close(const at::Tensor& a, const at::Tensor& b) {
  EXPECT_TRUE(at::allclose(a, b, 1e-12, 1e-12)) << (a - b).abs().max().item<double>();
}

TEST(RmsNorm, IsItsFormula) {
  const at::Tensor x = random({2, 3, 8}, 1).requires_grad_();
  const at::Tensor weight = random({8}, 2).requires_grad_();

  const at::Tensor composed = x / at::sqrt((x * x).mean(-1, true) + 1e-2) * weight;
  const at::Tensor ours = rms_norm(x, weight, 1e-2);

  expect_close(ours, composed);
  const Values expected = gradients(composed, {x, weight}), got = gradients(ours, {x, weight});
  expect_close(got[0], expected[0]);
  expect_close(got[1], expected[1]);
}

TEST(RmsNorm, OfBfloat16ComputesInFloat32) {
  const at::Tensor x = random({5, 64}, 1).to(at::kBFloat16).requires_grad_();
  const at::Tensor weight = random({64}, 2).to(at::kBFloat16).requires_grad_();
  const at::Tensor exact_x = x.detach().to(at::kDouble).requires_grad_();
  const at::Tensor exact_weight = weight.detach().to(at::kDouble).requires_grad_();
  const at::Tensor dy = random({5, 64}, 3).to(at::kBFloat16);

  const at::Tensor y = rms_norm(x, weight, 1e-5);
  const at::Tensor exact = rms_norm(exact_x, exact_weight, 1e-5);
  EXPECT_TRUE(at::equal(y, exact.to(at::kFloat).to(at::kBFloat16)));  // rounded once
  const Values found = torch::autograd::grad({y}, {x, weight}, {dy});
  const Values expected =
      torch::autograd::grad({exact}, {exact_x, exact_weight}, {dy.to(at::kDouble)});
  for (const std::size_t i : {0U, 1U}) {
    EXPECT_EQ(found[i].scalar_type(), at::kBFloat16);
    EXPECT_TRUE(at::allclose(found[i].to(at::kDouble), expected[i], 1.0 / 256, 1e-6)) << i;
  }
}

/// A product with a value that is cheap to compute, run with or without lean tapes.
class CheapOperand final : public Layer {
 public:
  Values forward(const Values& input, const Context& run) override {
    const at::Tensor operand = remade({input[0]}, run, [this](const Values& sources) {
      ++made;
      return (sources[0] * 3).tanh();
    });
    return {at::mm(operand, weight)};
  }
  int made = 0;
  at::Tensor weight = add_parameter("weight", at::eye(8));
};

TEST(Remade, IsMadeAgainForTheBackwardAndNotKept) {
  const at::Tensor x = at::ones({4, 8});
  Values gradients;
  for (const bool lean : {false, true}) {
    CheapOperand layer;
    Context run = context();
    run.lean_tapes = lean;
    Tape tape = taped_forward(layer, {x}, run, Precision::kFloat32, InputGradient::kNeeded,
                              TapeUse::kMayMove);
    // tanh saves the operand, too; with lean tapes the product's tape has x instead.
    EXPECT_EQ(layer.made, 1);
    backward(std::move(tape), {at::ones({4, 8})});
    EXPECT_EQ(layer.made, lean ? 2 : 1);
    gradients.push_back(layer.weight.grad());
  }
  EXPECT_TRUE(at::equal(gradients[0], gradients[1]));
}

/// A product with a frozen weight that is cast for it; nothing holds the cast afterwards.
class FrozenProduct final : public Layer {
 public:
  FrozenProduct() {
    train_only([](const Parameter&) { return false; });
  }
  Values forward(const Values& input, const Context& run) override {
    const at::Tensor x = input[0].to(at::kBFloat16);
    at::Tensor cast =
        remade({weight}, run, [](const Values& sources) { return sources[0].to(at::kBFloat16); });
    const auto storage = cast.storage().getWeakStorageImpl();
    Values output{at::mm(x, cast)};
    cast.reset();
    is_gone = storage.expired();
    return output;
  }
  bool is_gone = false;
  at::Tensor weight = add_parameter("weight", at::eye(8));
};

TEST(Remade, LeavesOutCastsOfFrozenWeightsAndLetsThemGoAtOnce) {
  std::map<bool, std::size_t> bytes;
  Values gradients;
  for (const bool lean : {false, true}) {
    FrozenProduct layer;
    Context run = context();
    run.lean_tapes = lean;
    Tape tape = taped_forward(layer, {at::ones({4, 8})}, run, Precision::kFloat32,
                              InputGradient::kNeeded, TapeUse::kMayMove);
    EXPECT_EQ(layer.is_gone, lean);
    for (const c10::Storage& storage : tape.storages) bytes[lean] += storage.nbytes();
    gradients.push_back(backward(std::move(tape), {at::ones({4, 8}, at::kBFloat16)}).at(0));
  }
  EXPECT_EQ(bytes[false] - bytes[true], 8U * 8 * 2);
  EXPECT_TRUE(at::equal(gradients[0], gradients[1]));
}

/// Changes the value, or its source, before a product saves it.
class ChangesInPlace final : public Layer {
 public:
  explicit ChangesInPlace(bool changes_source) : changes_source_(changes_source) {}
  Values forward(const Values& input, const Context& run) override {
    at::Tensor source = input[0] * 2;  // saves nothing
    at::Tensor operand =
        remade({source}, run, [](const Values& sources) { return sources[0] * 3; });
    changes_source_ ? source.add_(1) : operand.add_(1);
    return {at::mm(operand, weight)};
  }
  at::Tensor weight = add_parameter("weight", at::eye(8));

 private:
  bool changes_source_;
};

TEST(Remade, IsKeptWhereItOrItsSourceWasChangedInPlace) {
  const at::Tensor x = at::ones({4, 8});
  for (const bool changes_source : {false, true}) {
    ChangesInPlace layer(changes_source);
    Context run = context();
    run.lean_tapes = true;
    Tape tape = taped_forward(layer, {x}, run, Precision::kFloat32, InputGradient::kNeeded);
    backward(std::move(tape), {at::ones({4, 8})});
    EXPECT_EQ(layer.weight.grad()[0][0].item<float>(), 4 * (changes_source ? 6 : 7));
  }
}

TEST(Remade, FromWhatWasChangedInPlaceIsRefused) {
  const at::Tensor x = at::ones({4, 8});
  CheapOperand layer;
  Context run = context();
  run.lean_tapes = true;
  Tape tape = taped_forward(layer, {x}, run, Precision::kFloat32, InputGradient::kNeeded);
  tape.inputs.at(0).detach().add_(1);
  EXPECT_THAT(
      [&] {
        backward(std::move(tape), {at::ones({4, 8})});
      },
      testing::ThrowsMessage<InputError>(testing::HasSubstr("changes it in place")));
}

TEST(Embed, AddsGradientsOfOneTokenInFloat32) {
  const at::Tensor weight = at::ones({3, 4}, at::kBFloat16).requires_grad_();
  const at::Tensor rows = embed(weight, at::ones({1000}, at::kLong));
  EXPECT_EQ(rows.scalar_type(), at::kBFloat16);

  rows.backward(at::ones({1000, 4}, at::kBFloat16));
  EXPECT_EQ(weight.grad()[1][0].item<float>(), 1000);  // a bfloat16 sum ends at 256
  EXPECT_EQ(weight.grad()[0][0].item<float>(), 0);
}

TEST(Swiglu, IsItsFormula) {
  const at::Tensor gate = random({3, 8}, 1).requires_grad_();
  const at::Tensor up = random({3, 8}, 2).requires_grad_();

  const at::Tensor composed = gate / (1 + at::exp(-gate)) * up;
  const at::Tensor ours = swiglu(gate, up);

  expect_close(ours, composed);
  const Values expected = gradients(composed, {gate, up}), got = gradients(ours, {gate, up});
  expect_close(got[0], expected[0]);
  expect_close(got[1], expected[1]);
}

TEST(Dropout, DropsAShareAndScalesTheRest) {
  const at::Tensor x = at::ones({100'000});

  const at::Tensor kept = dropout(x, 0.25, context());

  const auto zeros = kept.eq(0).sum().item<std::int64_t>();
  EXPECT_NEAR(static_cast<double>(zeros), 25'000, 5 * 137);  // sqrt(100000 x 0.25 x 0.75) = 137
  EXPECT_EQ(kept.max().item<float>(), 1 / 0.75F);
  EXPECT_TRUE(dropout(x, 0.25, context(false)).is_same(x));
  EXPECT_TRUE(dropout(x, 0, context()).is_same(x));
}

TEST(Seeds, KeepParametersApartAndStay) {
  const Seeds seeds(1, 2);
  const auto first = [](const at::Generator& from) {
    return at::empty({1}).normal_(0, 1, from).item<float>();
  };

  EXPECT_EQ(first(seeds.of_parameter("a")), first(Seeds(1, 3).of_parameter("a")));
  EXPECT_NE(first(seeds.of_parameter("a")), first(seeds.of_parameter("b")));
  EXPECT_NE(first(seeds.of_parameter("a")), first(Seeds(2, 2).of_parameter("a")));
  EXPECT_NE(first(seeds.of_parameter("a")), first(seeds.of_tie("a")));
}

}  // namespace
}  // namespace trireme::model
