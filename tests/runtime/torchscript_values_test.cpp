// Tensors within modules from Python: constants, attributes, buffers of all kinds.
// SPDX-License-Identifier: Apache-2.0
#include "scripts.h"
#include "small_runs.h"
#include "support/input_error.h"
#include "support/temporary_folder.h"

#include "trireme/core/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>

namespace trireme::runtime {
namespace {

using support::input_error;
using support::TemporaryFolder;
using testing::HasSubstr;

constexpr const char* kGiveInput = "def forward(self, x):\n    return x * self.w\n";

/// A layer of the module that `file` holds.
std::unique_ptr<model::Layer> layer_of(const std::filesystem::path& file) {
  config::TorchScriptSpec spec;
  spec.files = {file.string()};
  spec.takes = "vectors";
  return model::make_model(spec).layers[0].build(model::Seeds(1, 1));
}

/// Output of the layer, which may ignore its target.
at::Tensor output_of(model::Layer& layer, const at::Tensor& x) {
  const at::NoGradGuard no_grad;
  const model::Context context{.generator = model::Seeds(1, 1).of_layer(),
                               .target = {at::zeros({1}, at::kLong)}};
  return layer.forward({x}, context).at(0);
}

/// Loss of the last layer: the sum of w * x plus what `script` adds, and the target.
at::Tensor loss_of(Script script, const std::filesystem::path& file, const at::Tensor& x) {
  script.parameters = {{"w", at::ones({1})}};
  save_script(script, file);
  return output_of(*layer_of(file), x);
}

constexpr const char* kSum = "def forward(self, x, target):\n    return (x * self.w).sum()\n";

class Constants : public testing::TestWithParam<at::ScalarType> {};

// The parser compares constants of one type and shape with each other.
TEST_P(Constants, OfOneShapeMayBeSeveral) {
  const TemporaryFolder folder;
  const at::Tensor one = at::ones({}, GetParam()), other = one.logical_not().to(one.scalar_type());
  const at::Tensor loss = loss_of({.code = kSum, .parameters = {}, .constants = {one, other, one}},
                                  folder / "l.pt", at::full({2}, 4.0));
  EXPECT_EQ(loss.item<double>(), 8 + 2 * one.item<double>() + other.item<double>());
}

INSTANTIATE_TEST_SUITE_P(Types, Constants,
                         testing::Values(at::kFloat, at::kDouble, at::kHalf, at::kBFloat16,
                                         at::kLong, at::kChar));

TEST(TorchScriptTensors, OfTypesThatNoCheckpointHoldsStayAsTheyAre) {
  const TemporaryFolder folder;
  save_script({.code = "def forward(self, x, target):\n"
                       "    y = torch.view_as_complex(x * self.w) * self.turn\n"
                       "    return torch.view_as_real(y).sum() + self.eight.sum() + "
                       "torch.dequantize(self.few).sum()\n",
               .parameters = {{"w", at::ones({1})}},
               .buffers = {{"turn", at::full({1}, c10::complex<float>(2, 0))},
                           {"eight", at::full({1}, 3, at::kChar)},
                           {"few", at::quantize_per_tensor(at::full({1}, 5.0), 1, 0, at::kQInt8)},
                           {"usual", at::ones({1})}}},
              folder / "l.pt");
  const auto layer = layer_of(folder / "l.pt");
  ASSERT_EQ(layer->buffers().size(), 1U);
  EXPECT_EQ(layer->buffers()[0].name, "usual");
  EXPECT_EQ(output_of(*layer, at::ones({4, 2})).item<float>(), 16 + 3 + 5);
}

TEST(TorchScriptTensors, ThatAreTrainedAreFloat) {
  const TemporaryFolder folder;
  save_script({.code = kGiveInput, .parameters = {{"w", at::ones({1}, at::kComplexFloat)}}},
              folder / "l.pt");
  EXPECT_THAT(input_error([&] { layer_of(folder / "l.pt"); }),
              HasSubstr("l.pt: parameter w is ComplexFloat, must be Float"));
}

TEST(TorchScriptTensors, ThatAreAttributesAreReadAndNotWritten) {
  const TemporaryFolder folder;
  const auto save = [&](const std::string& code) {
    torch::jit::Module module("layer");
    module.register_attribute("training", c10::BoolType::get(), true);
    module.register_attribute("scale", c10::TensorType::get(), at::full({1}, 3.0));
    module.register_parameter("w", at::ones({1}).requires_grad_(), false);
    module.define(code);
    module.save((folder / "l.pt").string());
  };
  const std::string end = "    return (x * self.w * self.scale).sum()\n";

  save("def forward(self, x, target):\n" + end);
  EXPECT_EQ(output_of(*layer_of(folder / "l.pt"), at::ones({2})).item<float>(), 6);
  save("def forward(self, x, target):\n    self.scale.mul_(2)\n" + end);
  EXPECT_THAT(input_error([&] { output_of(*layer_of(folder / "l.pt"), at::ones({2})); }),
              HasSubstr("l.pt: changes its tensor scale in place"));
  save("def forward(self, x, target):\n    self.scale = self.scale * 2\n" + end);
  EXPECT_THAT(input_error([&] { layer_of(folder / "l.pt"); }),
              HasSubstr("l.pt: forward sets the attribute scale: what a layer remembers"));
}

TEST(TorchScriptTensors, ThatAreNoneAreNotSet) {
  const TemporaryFolder folder;
  torch::jit::Module module("layer");
  module.register_attribute("training", c10::BoolType::get(), true);
  module.register_attribute("count", c10::IntType::get(), 0);
  module.register_parameter("w", at::ones({1}).requires_grad_(), false);
  module.define(
      "def forward(self, x):\n    self.count = self.count + 1\n    return x * self.w * "
      "self.count\n");
  module.save((folder / "l.pt").string());
  EXPECT_THAT(input_error([&] { layer_of(folder / "l.pt"); }),
              HasSubstr("l.pt: forward sets the attribute count"));
}

// A recomputed forward would update them again, as with statistics that are changed in place.
TEST(TorchScriptTensors, ThatForwardPutsIntoABuffersPlaceAreItsValues) {
  const auto losses_of = [](const std::string& change, bool recompute) {
    const TemporaryFolder folder;
    const config::JobSpec job = small_job(save_scripts(folder.path()));
    save_script({.code = "def forward(self, x, before):\n    if self.training:\n        " + change +
                         "\n    else:\n        x = x - self.mean\n    return x * self.w, before\n",
                 .parameters = {{"w", at::ones({1})}},
                 .buffers = {{"mean", at::zeros({32})}}},
                folder / "layer2.pt");
    return run_small(job, {.recompute = recompute}).validation_loss;
  };
  const std::string in_place = "self.mean.mul_(0.9).add_(0.1 * x.detach().mean(0))";
  const std::string anew = "self.mean = (self.mean * 0.9).add_(0.1 * x.detach().mean(0))";

  const auto reference = losses_of(in_place, false);
  ASSERT_TRUE(reference.has_value());
  EXPECT_EQ(losses_of(anew, false), reference);
  EXPECT_EQ(losses_of(anew, true), reference);
}

// Python's tape has the old tensor, as it was.
TEST(TorchScriptTensors, ThatLeaveABuffersPlaceStayAsTheTapeSawThem) {
  const auto weights_of = [](const std::string& body, bool recompute) {
    const TemporaryFolder folder;
    const config::JobSpec job = small_job(save_scripts(folder.path()));
    save_script({.code = "def forward(self, x, before):\n    " + body + "\n    return y, before\n",
                 .parameters = {{"w", at::eye(32)}},
                 .buffers = {{"scale", at::full({32}, 0.5)}}},
                folder / "layer2.pt");
    return run_small(job, {.recompute = recompute}).parameters_digest;
  };
  const std::string copied =
      "scale = self.scale.clone()\n    y = torch.linear(x, self.w) * scale\n    "
      "self.scale.mul_(0.9)";
  const std::string set =
      "y = torch.linear(x, self.w) * self.scale\n    self.scale = self.scale * 0.9";
  const std::string set_first =
      "self.scale = self.scale * 0.9\n    y = torch.linear(x, self.w) * self.scale";
  const std::string changed_first =
      "self.scale.mul_(0.9)\n    y = torch.linear(x, self.w) * self.scale";

  EXPECT_EQ(weights_of(set, false), weights_of(copied, false));
  EXPECT_EQ(weights_of(set_first, false), weights_of(changed_first, false));
  EXPECT_EQ(weights_of(set, true), weights_of(copied, true));
}

}  // namespace
}  // namespace trireme::runtime
