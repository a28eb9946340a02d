// Our linear layers against LibTorch's: the same bits, the same bytes saved.
// SPDX-License-Identifier: Apache-2.0
#include "built.h"
#include "device/device_products.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>

#include <functional>

namespace trireme::model {
namespace {

using Product = std::function<at::Tensor(const at::Tensor& x, const at::Tensor& weight_OI,
                                         const at::Tensor& bias_O)>;

at::Tensor of_libtorch(const at::Tensor& x, const at::Tensor& weight_OI, const at::Tensor& bias_O) {
  return at::linear(x, weight_OI, bias_O);
}

struct Case {
  std::string name;
  std::vector<std::int64_t> sizes;  ///< of x before `view`
  std::function<at::Tensor(const at::Tensor&)> view = [](const at::Tensor& x) { return x; };
  bool has_bias = true, trains_weight = true, trains_bias = true, trains_x = true;
};

void PrintTo(const Case& each, std::ostream* out) {
  *out << each.name;
}

constexpr std::int64_t kIn = 67, kOut = 41;

std::vector<Case> cases() {
  const auto across = [](const at::Tensor& x) { return x.transpose(0, 1); };
  const auto part = [](const at::Tensor& x) { return x.narrow(-1, 3, kIn); };
  return {
      {.name = "matrix", .sizes = {29, kIn}},
      {.name = "matrix_without_bias", .sizes = {29, kIn}, .has_bias = false},
      {.name = "one_row", .sizes = {1, kIn}},
      {.name = "no_rows", .sizes = {0, kIn}},
      {.name = "vector", .sizes = {kIn}},
      {.name = "vector_without_bias", .sizes = {kIn}, .has_bias = false},
      {.name = "tokens", .sizes = {3, 29, kIn}},
      {.name = "tokens_without_bias", .sizes = {3, 29, kIn}, .has_bias = false},
      {.name = "many_tokens", .sizes = {4, 500, kIn}},
      {.name = "four_dimensions", .sizes = {2, 3, 5, kIn}},
      {.name = "crossed_tokens", .sizes = {3, 29, kIn}, .view = across},
      {.name = "crossed_tokens_without_bias",
       .sizes = {3, 29, kIn},
       .view = across,
       .has_bias = false},
      {.name = "crossed_matrix", .sizes = {kIn, 29}, .view = across},
      {.name = "part_of_matrix", .sizes = {29, 2 * kIn}, .view = part},
      {.name = "part_of_tokens", .sizes = {3, 29, 2 * kIn}, .view = part},
      {.name = "frozen_weight", .sizes = {3, 29, kIn}, .trains_weight = false},
      {.name = "frozen_bias", .sizes = {3, 29, kIn}, .trains_bias = false},
      {.name = "x_without_gradient", .sizes = {3, 29, kIn}, .trains_x = false},
      {.name = "weight_alone", .sizes = {3, 29, kIn}, .trains_bias = false, .trains_x = false},
      {.name = "bias_alone", .sizes = {3, 29, kIn}, .trains_weight = false, .trains_x = false},
  };
}

at::Tensor drawn(at::IntArrayRef sizes, std::uint64_t seed, at::ScalarType type, bool is_trained) {
  const at::Generator from = at::detail::createCPUGenerator(seed);
  return at::empty(sizes).normal_(0, 1, from).to(type).set_requires_grad(is_trained);
}

/// The result, and all gradients, for output gradients with `crossed` memory layout.
Values found(const Case& each, at::ScalarType type, bool is_crossed, const Product& product) {
  const at::Tensor source = drawn(each.sizes, 1, type, each.trains_x);
  const at::Tensor weight = drawn({kOut, kIn}, 2, type, each.trains_weight);
  const at::Tensor bias = each.has_bias ? drawn({kOut}, 3, type, each.trains_bias) : at::Tensor();
  const at::Tensor y = product(each.view(source), weight, bias);
  at::Tensor dy = drawn(y.sizes(), 4, type, false);
  if (is_crossed && y.dim() > 1) dy = dy.transpose(0, 1).contiguous().transpose(0, 1);
  y.backward(dy);
  Values all{y.detach()};
  for (const at::Tensor& leaf : {source, weight, bias})
    all.push_back(leaf.defined() ? leaf.grad() : at::Tensor());
  return all;
}

class LinearOf : public testing::TestWithParam<Case> {};

TEST_P(LinearOf, GivesLibTorchsBits) {
  for (const auto& [type, is_crossed] : {std::pair{at::kFloat, false},
                                         {at::kFloat, true},
                                         {at::kDouble, false},
                                         {at::kDouble, true},
                                         {at::kBFloat16, false},
                                         {at::kBFloat16, true}}) {
    const Values ours = found(GetParam(), type, is_crossed, linear);
    const Values theirs = found(GetParam(), type, is_crossed, of_libtorch);
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      SCOPED_TRACE(testing::Message() << type << ' ' << is_crossed << ' ' << i);
      ASSERT_EQ(ours[i].defined(), theirs[i].defined());
      if (!theirs[i].defined()) continue;
      EXPECT_EQ(ours[i].strides(), theirs[i].strides());
      // If x is not contiguous, LibTorch sums the bias gradient in the memory order of dy.
      const bool is_bias_of_crossed = i == 3 && is_crossed && GetParam().sizes.size() == 3 &&
                                      !GetParam().view(at::empty(GetParam().sizes)).is_contiguous();
      EXPECT_TRUE(is_bias_of_crossed ? at::allclose(ours[i], theirs[i], 1e-2, 1e-5)
                                     : at::equal(ours[i], theirs[i]));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, LinearOf, testing::ValuesIn(cases()),
                         [](const auto& each) { return each.param.name; });

/// A product whose x nothing else keeps.
class Alone final : public Layer {
 public:
  explicit Alone(Product product) : product_(std::move(product)) {
    weight_ = add_parameter("weight", drawn({kOut, kIn}, 2, at::kFloat, false));
    bias_ = add_parameter("bias", at::ones({kOut}));
  }
  Values forward(const Values& input, const Context&) override {
    return {product_(input[0] + 1, weight_, bias_) * 2};
  }

 private:
  Product product_;
  at::Tensor weight_, bias_;
};

std::size_t bytes_of(const Product& product, bool trains_weight, InputGradient input_gradient) {
  Alone layer(product);
  layer.train_only(
      [&](const Parameter& parameter) { return trains_weight || parameter.name == "bias"; });
  const Tape tape = taped_forward(layer, {at::ones({3, 29, kIn})}, context(), Precision::kFloat32,
                                  input_gradient, TapeUse::kMayMove);
  std::size_t bytes = 0;
  for (const c10::Storage& storage : tape.storages) bytes += storage.nbytes();
  return bytes - tape.outputs.at(0).nbytes();
}

TEST(Linear, KeepsItsInputForATrainedWeightAlone) {
  for (const InputGradient wanted : {InputGradient::kNeeded, InputGradient::kNotNeeded}) {
    for (const Product& product : {Product(linear), Product(of_libtorch)}) {
      EXPECT_EQ(bytes_of(product, /*trains_weight=*/true, wanted), 3 * 29 * kIn * sizeof(float));
      EXPECT_EQ(bytes_of(product, /*trains_weight=*/false, wanted), 0U);
    }
  }
}

TEST(Linear, DoesWhatAutocastDoes) {
  const at::Tensor x = drawn({29, kIn}, 1, at::kFloat, true),
                   dy = at::ones({29, kOut}, at::kBFloat16);
  std::vector<Values> all;
  for (const Product& product : {Product(linear), Product(of_libtorch)}) {
    const at::Tensor weight = drawn({kOut, kIn}, 2, at::kFloat, true);
    const at::Tensor bias = drawn({kOut}, 3, at::kFloat, true);
    at::Tensor y;
    {
      const AutocastScope autocast(Precision::kBfloat16, c10::DeviceType::CPU);
      y = product(x, weight, bias);
    }
    EXPECT_EQ(y.scalar_type(), at::kBFloat16);
    x.mutable_grad().reset();
    y.backward(dy);
    all.push_back({y, x.grad(), weight.grad(), bias.grad()});
  }
  for (std::size_t i = 0; i < all[0].size(); ++i) EXPECT_TRUE(at::equal(all[0][i], all[1][i])) << i;
}

}  // namespace
}  // namespace trireme::model
