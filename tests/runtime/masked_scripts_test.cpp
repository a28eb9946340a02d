// Losses of layers from Python where some targets do not count.
// SPDX-License-Identifier: Apache-2.0
#include "scripts.h"
#include "small_runs.h"
#include "support/input_error.h"
#include "support/temporary_folder.h"

#include "trireme/core/text.h"
#include "trireme/runtime/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::runtime {
namespace {

using support::input_error;
using support::TemporaryFolder;
using testing::HasSubstr;

config::TorchScriptSpec save_model(const std::filesystem::path& folder) {
  save_script(
      {.code = "def forward(self, i):\n    return torch.embedding(self.w, i)\n",
       .parameters = {{"w", at::empty({7, 4}).normal_(0, 1, model::Seeds(1, 1).of_layer())}}},
      folder / "a.pt");
  save_script(
      {.code = "def forward(self, x, target):\n"
               "    return torch.cross_entropy_loss(torch.flatten(torch.linear(x, self.w), "
               "0, 1), torch.flatten(target))\n",
       .parameters = {{"w", at::empty({7, 4}).normal_(0, 1, model::Seeds(1, 2).of_layer())}}},
      folder / "b.pt");
  config::TorchScriptSpec spec;
  spec.files = {(folder / "*.pt").string()};
  spec.context = 6;
  spec.classes = 7;
  spec.masked_targets = true;
  return spec;
}

// The sum over targets that count by what each of them weighs in the step (Context::target).
TEST(MaskedScripts, WeighEveryTargetOfAStepAlike) {
  const TemporaryFolder folder;
  const model::ChainModel chain = model::make_model(save_model(folder.path()));
  EXPECT_TRUE(chain.takes_masked_targets);
  const auto first = chain.layers[0].build(model::Seeds(1, 1));
  const auto last = chain.layers[1].build(model::Seeds(1, 2));
  const at::Tensor tokens = at::arange(12).remainder(7).view({2, 6});
  at::Tensor target = (tokens + 1).remainder(7);
  target.index_put_({at::tensor({0, 0, 1}), at::tensor({0, 3, 5})}, at::tensor(model::kMasked));
  model::Context context{.generator = model::Seeds(1, 1).of_layer(), .target = {}};
  const model::Values x = first->forward({tokens}, context);
  context.target = {target, at::full({}, 0.05F)};
  const at::Tensor loss = last->forward(x, context).at(0);

  const at::Tensor weight = last->parameters()[0].value;
  const at::Tensor of_each = -at::log_softmax(at::matmul(x[0], weight.t()), 2);
  double expected = 0;
  for (std::int64_t row = 0; row < 2; ++row)
    for (std::int64_t t = 0; t < 6; ++t) {
      const std::int64_t wanted = target[row][t].item<std::int64_t>();
      if (wanted >= 0) expected += 0.05 * of_each[row][t][wanted].item<double>();
    }
  EXPECT_NEAR(loss.item<double>(), expected, 1e-5);
}

TEST(MaskedScripts, TrainWithTheBitsOfOneStage) {
  const TemporaryFolder folder;
  config::JobSpec job = small_job(save_model(folder.path()));
  job.data.kind = "documents";
  const RunSummary one = run_small(job, {}), two = run_small(job, {.cut = {1}, .recompute = true});
  EXPECT_EQ(one.losses_digest, two.losses_digest);
  EXPECT_EQ(one.parameters_digest, two.parameters_digest);
}

TEST(MaskedScripts, WithoutTheKeyTakeNoMasks) {
  const TemporaryFolder folder;
  config::TorchScriptSpec spec = save_model(folder.path());
  spec.masked_targets = false;
  EXPECT_FALSE(model::make_model(spec).takes_masked_targets);
}

TEST(LanguageModel, HasLogits) {
  const TemporaryFolder folder;
  const config::TorchScriptSpec spec = save_model(folder.path());
  EXPECT_THAT(input_error([&] {
                LanguageModel::of_weights(model::make_model(spec), spec, "none.safetensors");
              }),
              HasSubstr("gives a loss, no logits"));
}

}  // namespace
}  // namespace trireme::runtime
