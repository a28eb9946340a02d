// Weights that several layers from Python share (nanoGPT's embedding and head).
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

constexpr std::int64_t kVocabulary = 40, kWidth = 16, kContext = 12;

struct Weights {
  at::Tensor token = drawn({kVocabulary, kWidth}, 1), position = drawn({kContext, kWidth}, 2),
             up = drawn({4 * kWidth, kWidth}, 3), down = drawn({kWidth, 4 * kWidth}, 4);

  static at::Tensor drawn(at::IntArrayRef sizes, int key) {
    return at::empty(sizes).normal_(0, 0.2, model::Seeds(5, key).of_layer());
  }
};

constexpr const char* kEmbed = "torch.embedding(self.token, i) + self.position";
constexpr const char* kBlock =
    "x + torch.linear(torch.gelu(torch.linear(torch.layer_norm(x, [16]), self.up)), self.down)";
constexpr const char* kLoss =
    "torch.cross_entropy_loss(torch.flatten(torch.linear(x, self.token), 0, 1), "
    "torch.flatten(target))";

config::TorchScriptSpec spec_of(const std::filesystem::path& folder) {
  config::TorchScriptSpec spec;
  spec.files = {(folder / "*.pt").string()};
  spec.context = kContext;
  spec.classes = kVocabulary;
  return spec;
}

/// Embedding, a block and a head whose weight is the embedding's.
config::TorchScriptSpec save_small_gpt(const std::filesystem::path& folder) {
  const Weights w;
  save_script({.code = concat("def forward(self, i):\n    return ", kEmbed, "\n"),
               .parameters = {{"token", w.token}, {"position", w.position}}},
              folder / "a.pt");
  save_script({.code = concat("def forward(self, x):\n    return ", kBlock, "\n"),
               .parameters = {{"up", w.up}, {"down", w.down}}},
              folder / "b.pt");
  save_script({.code = concat("def forward(self, x, target):\n    return ", kLoss, "\n"),
               .parameters = {{"token", w.token}}},
              folder / "c.pt");
  return spec_of(folder);
}

/// The same in one layer, where the weight is one by itself.
config::TorchScriptSpec save_whole(const std::filesystem::path& folder) {
  const Weights w;
  save_script({.code = concat("def forward(self, i, target):\n    x = ", kEmbed,
                              "\n    x = ", kBlock, "\n    return ", kLoss, "\n"),
               .parameters =
                   {{"token", w.token}, {"position", w.position}, {"up", w.up}, {"down", w.down}}},
              folder / "whole.pt");
  return spec_of(folder);
}

TEST(TiedScripts, LearnAsOneWeight) {
  const TemporaryFolder whole, parts;
  const double expected = run_small(small_job(save_whole(whole.path())), {}).train_loss;
  config::TorchScriptSpec spec = save_small_gpt(parts.path());

  const double untied = run_small(small_job(spec), {}).train_loss;
  spec.tied = {{"a/token", "c/token"}};
  const double tied = run_small(small_job(spec), {}).train_loss;

  EXPECT_NEAR(tied, expected, 1e-5);
  EXPECT_GT(std::abs(untied - expected), 1e-3);
}

TEST(TiedScripts, HaveTheBitsOfOneStageHoweverTheyAreCut) {
  const TemporaryFolder folder;
  config::TorchScriptSpec spec = save_small_gpt(folder.path());
  spec.tied = {{"a/token", "c/token"}};
  const RunSummary one = run_small(small_job(spec), {});
  for (const Split& split : {Split{.cut = {1}}, Split{.cut = {1, 2}, .recompute = true}}) {
    const RunSummary cut = run_small(small_job(spec), split);
    EXPECT_EQ(cut.losses_digest, one.losses_digest);
    EXPECT_EQ(cut.parameters_digest, one.parameters_digest);
  }
}

TEST(TiedScripts, AreExportedOnceAndBegunWithAgain) {
  const TemporaryFolder folder, out;
  config::TorchScriptSpec spec = save_small_gpt(folder.path());
  spec.tied = {{"a/token", "c/token"}};
  config::JobSpec job = small_job(spec);
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

TEST(TiedScripts, StandInTheJob) {
  const auto read = [](const std::string& tied) {
    return config::read_job(io::parse(concat("model: {kind: torchscript, files: [a.pt], tied: ",
                                             tied, "}\n", "data: {kind: text, files: [t]}\n"),
                                      "job.yaml"),
                            {});
  };
  const std::string written = config::to_yaml(read("[[a/w, b/w], [a/v, c/v]]"));
  EXPECT_THAT(written, HasSubstr("  tied: [[a/w, b/w], [a/v, c/v]]\n"));
  const config::JobSpec again = config::read_job(io::parse(written, "job.yaml"), {});
  EXPECT_EQ(std::get<config::TorchScriptSpec>(again.model).tied,
            (std::vector<std::vector<std::string>>{{"a/w", "b/w"}, {"a/v", "c/v"}}));
  EXPECT_THAT(input_error([&] { read("[[a/w]]"); }), HasSubstr("must have lists of at least two"));
  EXPECT_THAT(input_error([&] { read("[[a/w, b/w], [b/w, c/w]]"); }),
              HasSubstr("names 'b/w' twice"));
}

TEST(TiedScripts, ThatCannotBeOneWeightAreRefused) {
  const TemporaryFolder folder;
  config::TorchScriptSpec spec = save_small_gpt(folder.path());
  const auto refusal = [&](std::vector<std::string> places) {
    spec.tied = {std::move(places)};
    return input_error([&] { model::make_model(spec); });
  };
  EXPECT_THAT(refusal({"a/token", "d/token"}), HasSubstr("model.tied: 'd/token' is no place"));
  EXPECT_THAT(refusal({"token", "c/token"}), HasSubstr("model.tied: 'token' is no place"));
  EXPECT_THAT(refusal({"a/token", "c/weight"}), HasSubstr("c.pt has no parameter 'weight'"));
  EXPECT_THAT(refusal({"c/token", "a/token"}), HasSubstr("in the order of the layers"));
  EXPECT_THAT(refusal({"a/position", "c/token"}), HasSubstr("one weight has one size"));
  save_script({.code = concat("def forward(self, x, target):\n    return ", kLoss, "\n"),
               .parameters = {{"token", Weights().token + 1}}},
              folder / "c.pt");
  EXPECT_THAT(refusal({"a/token", "c/token"}),
              HasSubstr("a/token and c/token begin with other values"));
  save_script({.code = concat("def forward(self, x, target):\n    return ", kLoss, "\n"),
               .parameters = {{"token", Weights().token}},
               .is_frozen = true},
              folder / "c.pt");
  EXPECT_THAT(refusal({"a/token", "c/token"}), HasSubstr("is frozen, the other is trained"));
}

}  // namespace
}  // namespace trireme::runtime
