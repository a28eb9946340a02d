// Early-stop recomputation of tapes: the graph of a forward without its tensors, filled by a second
// forward that ends early.
// SPDX-License-Identifier: Apache-2.0
#include "built.h"
#include "small_chains.h"

#include "trireme/core/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace trireme::model {
namespace {

struct Chain {
  std::string name;
  ChainModel model;
  Precision precision = Precision::kFloat32;
};

Values floating(const Values& values) {
  Values result;
  for (const at::Tensor& value : values) {
    if (value.is_floating_point()) result.push_back(value);
  }
  return result;
}

/// Gradients of input and parameters from a tape, for output gradients of 0.5.
Values gradients_of(Layer& layer, Tape tape, const Values& outputs) {
  for (const Parameter& parameter : layer.parameters())
    parameter.value.mutable_grad() = at::zeros_like(parameter.value);
  Values ones;
  for (const at::Tensor& output : floating(outputs)) ones.push_back(at::full_like(output, 0.5));
  Values gradients = backward(std::move(tape), ones);
  for (const Parameter& parameter : layer.parameters())
    gradients.push_back(parameter.value.grad().clone());
  return gradients;
}

class RetapeOf : public testing::TestWithParam<Chain> {};

TEST_P(RetapeOf, EveryLayerGivesTheGradientsOfAWholeTape) {
  Built chain(GetParam().model, GetParam().precision);
  const Examples examples(chain.model, 3);
  Values x{examples.input};
  for (int i = 1; i <= chain.model.length(); ++i) {
    Layer& layer = chain.layer(i);
    const Values target = i == chain.model.length() ? Values{examples.target} : Values{};
    const auto wanted = i > 1 ? InputGradient::kNeeded : InputGradient::kNotNeeded;
    const Precision precision = GetParam().precision;
    Tape whole = taped_forward(layer, x, context(true, target), precision, wanted);
    const Values outputs = whole.outputs;
    const Values expected = gradients_of(layer, std::move(whole), outputs);

    Outlined outlined = outlined_forward(layer, x, context(true, target), precision, wanted);
    ASSERT_EQ(outlined.outputs.size(), outputs.size());
    for (std::size_t k = 0; k < outputs.size(); ++k)
      EXPECT_TRUE(at::equal(outlined.outputs[k], outputs[k])) << i << ' ' << k;
    Tape again = retape(std::move(outlined.outline), layer, x, context(true, target), precision);
    const Values found = gradients_of(layer, std::move(again), outputs);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t k = 0; k < found.size(); ++k)
      EXPECT_TRUE(at::equal(found[k], expected[k]))
          << chain.model.layers[static_cast<std::size_t>(i - 1)].name << ' ' << k;
    x = outputs;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Chains, RetapeOf,
    testing::Values(
        Chain{"gpt", small_gpt("block")}, Chain{"gpt_half", small_gpt("half_block")},
        Chain{"gpt_fine", small_gpt("fine")}, Chain{"gpt_loss_chunks", small_gpt("block", 2)},
        Chain{"gpt_bfloat16", small_gpt("block"), Precision::kBfloat16},
        Chain{"gpt_bfloat16_weights", small_gpt("block"), Precision::kBfloat16Weights},
        Chain{"llama", small_llama("block")}, Chain{"decoder", small_decoder("half_block")},
        Chain{"decoder_fine", small_decoder("fine", 3)},
        Chain{"windowed_decoder", small_windowed_decoder("block")},
        Chain{"llama_bfloat16_weights", small_llama("block"), Precision::kBfloat16Weights},
        Chain{"vit", small_vit()}, Chain{"resnet18", small_resnet18()},
        Chain{"resnet18_bfloat16_weights", small_resnet18(), Precision::kBfloat16Weights},
        Chain{"vgg", small_vgg()},
        Chain{"mlp", make_mlp({.inputs = 12,
                               .widths = {24, 16},
                               .classes = 5,
                               .batch_norm = true,
                               .dropout = 0.1})}),
    [](const auto& test) { return test.param.name; });

/// tanh, a product with a weight, and operations given by the test between and after them.
class Probe final : public Layer {
 public:
  Probe() { weight_ = add_parameter("weight", at::ones({4, 4})); }

  Values forward(const Values& input, const Context&) override {
    const at::Tensor bent = input.at(0).tanh();
    if (between) between();
    at::Tensor output = at::mm(bent, weight_);
    if (after) after();
    return {std::move(output)};
  }

  std::function<void()> between, after;

 private:
  at::Tensor weight_;
};

Outlined outlined(Probe& probe, const Values& input) {
  return outlined_forward(probe, input, context(), Precision::kFloat32, InputGradient::kNeeded);
}

TEST(Retape, EndsWithTheLastTensorThatTheBackwardNeeds) {
  Probe probe;
  const Values input{at::ones({2, 4})};
  Outlined first = outlined(probe, input);
  int between = 0, after = 0;
  probe.between = [&] { ++between; };
  probe.after = [&] { ++after; };

  const Tape tape = retape(std::move(first.outline), probe, input, context(), Precision::kFloat32);

  EXPECT_EQ(between, 1);
  EXPECT_EQ(after, 0) << "the product is the last thing, and its backward needs its factors alone";
  EXPECT_TRUE(tape.outputs.empty());
}

/// Passes on a parameter and a buffer; as the last layer, the target as its loss.
class Shows final : public Layer {
 public:
  Values forward(const Values& input, const Context& run) override {
    if (!run.target.empty()) return {run.target[0]};
    return {input[0] + query_, query_.expand({2, 4}), state_};
  }
  at::Tensor query_ = add_parameter("query", at::ones({4}));
  at::Tensor state_ = add_buffer("state", at::ones({4}));
};

TEST(Outputs, NeverShareBytesWithWhatTheLayerOnlyShows) {
  Shows layer;
  const auto tape_of = [&layer](const Context& run) {
    return taped_forward(layer, {at::ones({2, 4})}, run, Precision::kFloat32,
                         InputGradient::kNeeded, TapeUse::kMayMove);
  };
  const Tape tape = tape_of(context(true));
  const Context last = context(true, {at::ones({})});

  EXPECT_FALSE(tape.outputs.at(1).storage().is_alias_of(layer.query_.storage()));
  EXPECT_FALSE(tape.outputs.at(2).storage().is_alias_of(layer.state_.storage()));
  EXPECT_TRUE(at::equal(tape.outputs.at(1), at::ones({2, 4})));
  EXPECT_FALSE(tape_of(last).outputs.at(0).storage().is_alias_of(last.target[0].storage()));
}

TEST(Outline, HoldsNeitherItsInputNorWhatTheForwardSaved) {
  Probe probe;
  const Values input{at::ones({2, 4})};
  const auto holders = input[0].storage().use_count();

  const Outlined first = outlined(probe, input);

  EXPECT_EQ(input[0].storage().use_count(), holders);
  EXPECT_EQ(first.outline.leaves.at(0).storage().nbytes(), 0U);
  EXPECT_EQ(first.outputs.at(0).storage().use_count(), 1U);
}

TEST(Outline, ThatWasNeverFilledFailsInItsBackward) {
  Probe probe;
  Outlined first = outlined(probe, {at::ones({2, 4})});
  Tape tape{.inputs = {},
            .leaves = std::move(first.outline.leaves),
            .roots = std::move(first.outline.roots),
            .outputs = {}};

  EXPECT_THROW(backward(std::move(tape), {at::ones({2, 4})}), c10::Error);
}

/// Multiplies by a number, for which autograd asks how to save it, and then saves it otherwise.
class Scaled final : public Layer {
 public:
  Values forward(const Values& input, const Context&) override {
    return {(input.at(0) * 1.5).tanh().mul(at::scalar_tensor(0.5)).exp()};
  }
};

TEST(Retape, TakesProductsWithNumbers) {
  Scaled layer;
  const Values input{at::linspace(-1, 1, 8).view({2, 4})};
  Tape whole = taped_forward(layer, input, context(), Precision::kFloat32, InputGradient::kNeeded);
  const Values expected = backward(std::move(whole), {at::ones({2, 4})});

  Outlined first =
      outlined_forward(layer, input, context(), Precision::kFloat32, InputGradient::kNeeded);
  Tape again = retape(std::move(first.outline), layer, input, context(), Precision::kFloat32);
  const Values found = backward(std::move(again), {at::ones({2, 4})});

  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(at::equal(found[0], expected.at(0)));
}

/// Saves one tensor less from the second forward on.
class Forgetful final : public Layer {
 public:
  Values forward(const Values& input, const Context&) override {
    return {first_++ == 0 ? input.at(0).tanh().exp() : input.at(0).tanh()};
  }

 private:
  int first_ = 0;
};

TEST(Retape, RefusesALayerThatSavesLessTheSecondTime) {
  Forgetful layer;
  const Values input{at::ones({2, 4})};
  Outlined first =
      outlined_forward(layer, input, context(), Precision::kFloat32, InputGradient::kNeeded);

  try {
    retape(std::move(first.outline), layer, input, context(), Precision::kFloat32);
    FAIL() << "nothing was noticed";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("saved 1 tensors instead of 2"));
  }
}

TEST(Retape, LeavesNoScopeBehind) {
  Probe probe;
  const Values input{at::ones({2, 4})};
  Outlined first = outlined(probe, input);
  retape(std::move(first.outline), probe, input, context(), Precision::kFloat32);

  Tape tape = taped_forward(probe, input, context(), Precision::kFloat32, InputGradient::kNeeded);

  EXPECT_NO_THROW(backward(std::move(tape), {at::ones({2, 4})}));
}

}  // namespace
}  // namespace trireme::model
