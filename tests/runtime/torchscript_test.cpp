// Layers from Python: the same numbers as built-in layers, whatever the split.
// SPDX-License-Identifier: Apache-2.0
#include "scripts.h"
#include "small_runs.h"
#include "support/input_error.h"
#include "support/temporary_folder.h"

#include "trireme/core/text.h"
#include "trireme/io/file.h"
#include "trireme/runtime/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>

namespace trireme::runtime {
namespace {

using support::input_error;
using support::TemporaryFolder;
using testing::HasSubstr;

TEST(TorchScript, GivesTheBitsOfTheSameLayersInCpp) {
  const config::MlpSpec mlp{.inputs = 12, .widths = {16, 8}, .classes = 5};
  const model::ChainModel native = model::make_model(mlp);
  const TemporaryFolder folder;
  for (int i = 1; i <= 3; ++i) {
    const auto layer = native.layers[static_cast<std::size_t>(i - 1)].build(model::Seeds(1, i));
    const std::string code =
        i < 3 ? "def forward(self, x):\n    return torch.gelu(torch.linear(x, self.w, self.b))\n"
              : "def forward(self, x, target):\n"
                "    return torch.cross_entropy_loss(torch.linear(x, self.w, self.b), target)\n";
    save_script(
        {.code = code,
         .parameters = {{"w", layer->parameters()[0].value}, {"b", layer->parameters()[1].value}}},
        folder / concat("layer", i, ".pt"));
  }
  config::TorchScriptSpec script;
  script.files = {(folder / "*.pt").string()};
  script.takes = "vectors";
  script.inputs = 12;
  script.classes = 5;

  const RunSummary mine = run_small(small_job(mlp), {});
  const RunSummary theirs = run_small(small_job(script), {});

  EXPECT_EQ(theirs.losses_digest, mine.losses_digest);
  EXPECT_EQ(theirs.validation_loss, mine.validation_loss);
}

class TorchScriptSplit : public testing::TestWithParam<Split> {};

TEST_P(TorchScriptSplit, GivesTheBitsOfOneStage) {
  const TemporaryFolder folder;
  const config::JobSpec job = small_job(save_scripts(folder.path()));
  Split one;
  one.replicas = GetParam().replicas;

  const RunSummary reference = run_small(job, one), run = run_small(job, GetParam());

  EXPECT_EQ(run.losses_digest, reference.losses_digest);
  EXPECT_EQ(run.parameters_digest, reference.parameters_digest);
  EXPECT_EQ(run.validation_loss, reference.validation_loss);
}

INSTANTIATE_TEST_SUITE_P(Splits, TorchScriptSplit,
                         testing::Values(Split{.cut = {2}}, Split{.cut = {1, 2, 3, 4}},
                                         Split{.schedule = "gpipe", .recompute = true},
                                         Split{.cut = {1, 3}, .recompute = true},
                                         Split{.cut = {3}, .recompute = true, .replicas = 2}));

TEST(TorchScript, DropsActivationsAtRandomInTrainingAlone) {
  const TemporaryFolder folder;
  config::JobSpec job = small_job(save_scripts(folder.path()));
  job.train.optimizer.learning_rate = 0;
  config::JobSpec other = job;
  other.train.seed = 7;

  const RunSummary one = run_small(job, {}), two = run_small(other, {});

  EXPECT_NE(one.losses_digest, two.losses_digest);
  EXPECT_EQ(one.validation_loss.value(), two.validation_loss.value());
}

TEST(TorchScript, IsExportedAndBegunWithAgain) {
  const TemporaryFolder folder, out;
  config::JobSpec job = small_job(save_scripts(folder.path()));
  Checkpointing checkpoints;
  checkpoints.folder = out.path();
  checkpoints.every = 3;
  checkpoints.job = "train: {}\n";
  const RunSummary trained = run_small(job, {}, {}, device::cpu(), checkpoints);
  job.weights = (out / "w.safetensors").string();
  export_weights(out / "step-3", job.model, at::kFloat, job.weights);
  job.train.optimizer.learning_rate = 0;
  EXPECT_EQ(run_small(job, {.cut = {2}}).parameters_digest, trained.parameters_digest);
}

TEST(TorchScript, TrainsAWeightOfTwoUsesInOneLayerOnce) {
  const TemporaryFolder folder;
  const at::Tensor shared = at::eye(32).requires_grad_();
  const config::TorchScriptSpec spec = save_scripts(folder.path());
  save_script({.code = "def forward(self, x):\n"
                       "    return torch.linear(torch.linear(x, self.a), self.a), x\n",
               .parameters = {{"a", shared}}},
              folder / "layer0.pt");
  const auto layer = model::make_model(spec).layers[0].build(model::Seeds(1, 1));
  EXPECT_EQ(layer->parameters().size(), 1U);
}

TEST(TorchScript, HasBatchNormsInFloat32BesideWeightsInBfloat16) {
  const TemporaryFolder folder;
  config::JobSpec job = small_job(save_scripts(folder.path()));
  job.train.precision = "bfloat16_weights";
  save_script({.code = "def forward(self, x, before):\n"
                       "    return torch.batch_norm(x, self.weight, self.bias, self.running_mean, "
                       "self.running_var, self.training, 0.1, 1e-5, False), before\n",
               .parameters = {{"weight", at::ones({32})}, {"bias", at::zeros({32})}},
               .buffers = {{"running_mean", at::zeros({32})}, {"running_var", at::ones({32})}}},
              folder / "layer2.pt");
  const auto layer = model::make_model(job.model).layers[2].build(model::Seeds(1, 3));
  for (const model::Parameter& parameter : layer->parameters())
    EXPECT_TRUE(parameter.stays_float32) << parameter.name;

  const RunSummary one = run_small(job, {}), two = run_small(job, {.cut = {2}});

  EXPECT_EQ(one.losses_digest, two.losses_digest);
  EXPECT_EQ(one.parameters_digest, two.parameters_digest);
}

TEST(TorchScript, HasFrozenParametersWhereNoneNeedsAGradient) {
  const TemporaryFolder folder;
  const model::ChainModel chain = model::make_model(save_frozen_scripts(folder.path()));
  const std::vector<bool> frozen = {true, true, false, true, false};
  const std::vector<bool> ends = {true, true, true, false, false};
  for (std::size_t i = 0; i < frozen.size(); ++i) {
    EXPECT_EQ(chain.layers[i].has_frozen, frozen[i]) << i;
    EXPECT_EQ(chain.layers[i].ends_backward, ends[i]) << i;
    const auto layer = chain.layers[i].build(model::Seeds(1, static_cast<int>(i) + 1));
    ASSERT_EQ(layer->parameters().size(), 2U) << i;
    for (const model::Parameter& parameter : layer->parameters()) {
      EXPECT_EQ(parameter.is_trained, !frozen[i]) << i;
      EXPECT_EQ(parameter.value.requires_grad(), !frozen[i]) << i;
    }
  }
}

// Frozen parameters are constants: the same values as buffers give the same losses.
TEST(TorchScript, TrainsBesideFrozenParametersAsBesideConstants) {
  const TemporaryFolder folder, constants;
  const config::JobSpec job = small_job(save_frozen_scripts(folder.path()));
  const config::JobSpec other = small_job(save_constant_scripts(constants.path()));
  const std::string reference = run_small(other, {}).losses_digest;

  EXPECT_EQ(run_small(job, {}).losses_digest, reference);
  EXPECT_EQ(run_small(job, {.cut = {2}, .recompute = true}).losses_digest, reference);
  EXPECT_EQ(run_small(job, {.cut = {1, 4}, .streams = true}).losses_digest, reference);
}

TEST(TorchScript, LowersFrozenParametersToo) {
  const TemporaryFolder folder;
  config::JobSpec job = small_job(save_frozen_scripts(folder.path()));
  job.train.precision = "bfloat16_weights";

  const RunSummary one = run_small(job, {}), two = run_small(job, {.cut = {2}, .streams = true});

  EXPECT_EQ(one.losses_digest, two.losses_digest);
  EXPECT_EQ(one.parameters_digest, two.parameters_digest);
}

TEST(TorchScript, WithNothingToTrainIsRefused) {
  const TemporaryFolder folder;
  config::TorchScriptSpec spec = save_frozen_scripts(folder.path());
  spec.files = {(folder / "layer[013].pt").string()};
  EXPECT_THAT(input_error([&] { model::make_model(spec); }),
              HasSubstr("model.files: no layer has a parameter that needs a gradient"));
}

TEST(TorchScript, SaysThatItHasBatchNorms) {
  const TemporaryFolder folder;
  const config::TorchScriptSpec spec = save_scripts(folder.path());
  EXPECT_FALSE(model::make_model(spec).has_batch_norm);
  torch::jit::Module norm("norm"), whole("whole");
  norm.register_buffer("running_mean", at::zeros({32}));
  whole.register_attribute("training", c10::BoolType::get(), true);
  whole.register_module("a", norm);
  whole.define("def forward(self, x, before):\n    return x - self.a.running_mean, before\n");
  whole.save((folder / "layer2.pt").string());
  EXPECT_TRUE(model::make_model(spec).has_batch_norm);
}

TEST(TorchScript, TrainsAModuleOfTwoNamesOnce) {
  const TemporaryFolder folder;
  torch::jit::Module part("part"), whole("whole");
  part.register_parameter("w", at::eye(32).requires_grad_(), false);
  whole.register_attribute("training", c10::BoolType::get(), true);
  whole.register_module("a", part);
  whole.register_module("b", part);
  whole.define("def forward(self, x):\n    return torch.linear(x * self.a.w[0], self.b.w)\n");
  whole.save((folder / "layer.pt").string());
  config::TorchScriptSpec spec;
  spec.files = {(folder / "layer.pt").string()};
  spec.takes = "vectors";

  const auto layer = model::make_model(spec).layers[0].build(model::Seeds(1, 1));

  ASSERT_EQ(layer->parameters().size(), 1U);
  EXPECT_EQ(layer->parameters()[0].name, "a.w");
}

// Weights of an LSTM that was on a GPU are parts of one storage.
TEST(TorchScript, KeepsPartsOfOneStorageApart) {
  const TemporaryFolder folder;
  const at::Tensor all = at::arange(64, at::kFloat);
  const auto layer_with = [&](const at::Tensor& a, const at::Tensor& b) {
    config::TorchScriptSpec spec;
    save_script({.code = "def forward(self, x):\n    return x * self.a + self.b\n",
                 .parameters = {{"w", at::ones({1})}},
                 .buffers = {{"a", a}, {"b", b}}},
                folder / "layer.pt");
    spec.files = {(folder / "layer.pt").string()};
    spec.takes = "vectors";
    return model::make_model(spec).layers[0].build(model::Seeds(1, 1));
  };

  const auto apart = layer_with(all.slice(0, 0, 32), all.slice(0, 32, 64));
  ASSERT_EQ(apart->buffers().size(), 2U);
  EXPECT_TRUE(at::equal(apart->buffers()[0].value, all.slice(0, 0, 32)));
  EXPECT_TRUE(at::equal(apart->buffers()[1].value, all.slice(0, 32, 64)));
  EXPECT_EQ(layer_with(all, all)->buffers().size(), 1U);
  EXPECT_THAT(input_error([&] { layer_with(all.slice(0, 0, 40), all.slice(0, 24, 64)); }),
              HasSubstr("layer.pt: b has some of its bytes from a"));
}

/// The error for a chain whose third layer has this code.
std::string refusal_of(const Script& script) {
  const TemporaryFolder folder;
  const config::JobSpec job = small_job(save_scripts(folder.path()));
  save_script(script, folder / "layer2.pt");
  return input_error([&] { run_small(job, {}); });
}

TEST(TorchScript, MayNotChangeItsInput) {
  EXPECT_THAT(refusal_of({.code = "def forward(self, x, before):\n"
                                  "    x.detach().mul_(2)\n    return x, before\n",
                          .parameters = {}}),
              HasSubstr("layer2.pt: changes its input 0 in place"));
}

TEST(TorchScript, TakesWhatTheLayerBeforeGives) {
  EXPECT_THAT(
      refusal_of({.code = "def forward(self, x):\n    return x\n", .parameters = {}}),
      HasSubstr(
          "layer2.pt: Expected at most 2 argument(s) for operator 'forward', but received 3"));
}

TEST(TorchScript, SaysWhereAnOperatorFailed) {
  const TemporaryFolder folder;
  const config::JobSpec job = small_job(save_scripts(folder.path()));
  save_script({.code = "def forward(self, x, before):\n    return torch.mm(x, x), before\n",
               .parameters = {}},
              folder / "layer2.pt");
  try {
    run_small(job, {});
    FAIL() << "a product of other sizes";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("layer2.pt: "));
    EXPECT_THAT(error.what(), HasSubstr("torch.mm(x, x)"));
  }
}

TEST(TorchScript, GivesTensors) {
  EXPECT_THAT(
      refusal_of({.code = "def forward(self, x, before):\n    return 3\n", .parameters = {}}),
      HasSubstr("layer2.pt: gives a Int, must give a tensor or a tuple of tensors"));
  EXPECT_THAT(
      refusal_of({.code = "def forward(self, x, before):\n    return x, 3\n", .parameters = {}}),
      HasSubstr("gives a tuple with a Int"));
}

TEST(TorchScript, HasParametersInFloat32) {
  EXPECT_THAT(refusal_of({.code = "def forward(self, x, before):\n    return x * self.w, before\n",
                          .parameters = {{"w", at::ones({1}, at::kHalf)}}}),
              HasSubstr("layer2.pt: parameter w is Half, must be Float"));
}

TEST(TorchScript, OfOtherFilesIsRefused) {
  const TemporaryFolder folder;
  config::TorchScriptSpec spec = save_scripts(folder.path());
  io::write_file(folder / "layer2.pt", "not a module");
  EXPECT_THAT(input_error([&] { run_small(small_job(spec), {}); }),
              HasSubstr("layer2.pt: is not a module saved by torch.jit.save"));
  spec.files = {(folder / "nothing*.pt").string()};
  EXPECT_THAT(input_error([&] { model::make_model(spec); }),
              HasSubstr("model.files: nothing matches"));
  spec.files = {(folder / "layer0.pt").string(), (folder / "layer*.pt").string()};
  EXPECT_THAT(input_error([&] { model::make_model(spec); }),
              HasSubstr("layer0.pt is named by two patterns: a file is one layer"));
  io::write_file(folder / "other" / "layer0.pt", "");
  spec.files = {(folder / "layer0.pt").string(), (folder / "other" / "layer0.pt").string()};
  EXPECT_THAT(input_error([&] { model::make_model(spec); }),
              HasSubstr("would both be layer 'layer0'"));
}

TEST(TorchScript, OfOtherFilesAreOtherByTheirDigest) {
  const auto scripts = [](const std::string& name, const std::string& code) {
    const TemporaryFolder folder;
    save_script({.code = code, .parameters = {}}, folder / name);
    config::TorchScriptSpec script;
    script.files = {(folder / "*.pt").string()};
    return model::files_digest(script);
  };
  const std::string one = "def forward(self, x):\n    return torch.gelu(x)\n";
  const std::string other = "def forward(self, x):\n    return torch.relu(x)\n";

  EXPECT_EQ(scripts("a.pt", one), scripts("a.pt", one));
  EXPECT_NE(scripts("a.pt", one), scripts("a.pt", other));
  EXPECT_NE(scripts("a.pt", one), scripts("b.pt", one));
  EXPECT_EQ(model::files_digest(config::MlpSpec{}), "");
}

}  // namespace
}  // namespace trireme::runtime
