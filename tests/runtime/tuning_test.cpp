// Runs that train some of their parameters: what they change, hold, save and export.
// SPDX-License-Identifier: Apache-2.0
#include "small_runs.h"
#include "state/stage.h"
#include "support/temporary_folder.h"

#include "trireme/checkpoint/store.h"
#include "trireme/core/text.h"
#include "trireme/profile/measure.h"
#include "trireme/runtime/weights.h"
#include "trireme/tier/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <utility>

namespace trireme::runtime {
namespace {

using support::TemporaryFolder;

config::LlamaSpec small_llama() {
  config::LlamaSpec spec;
  spec.blocks = 2;
  spec.width = 32;
  spec.heads = 4;
  spec.kv_heads = 2;
  spec.context = 16;
  spec.vocabulary = 40;
  return spec;
}

config::JobSpec job_of(config::ModelSpec model, const std::string& precision = "float32") {
  config::JobSpec job = small_job(std::move(model));
  job.train.precision = precision;
  job.train.clip_norm = 0.5;
  return job;
}

checkpoint::Manifest manifest_of(const config::JobSpec& job, const TemporaryFolder& folder) {
  return checkpoint::load_manifest(train_and_export(job, folder).checkpoint);
}

// The first rank of cut {1} has the embedding alone, of which nothing is trained.
TEST(Tuning, GivesTheBitsOfOneStageForEverySplit) {
  for (const char* const precision : {"float32", "bfloat16_weights"}) {
    const config::JobSpec job = job_of(with_adapters(), precision);
    const RunSummary reference = run_small(job, {}), of_two = run_small(job, {.replicas = 2});
    EXPECT_NE(reference.parameters_digest,
              run_small(job_of(small_gpt(), precision), {}).parameters_digest);
    for (const bool recompute : {false, true}) {
      for (const std::vector<int>& cut : {std::vector<int>{1}, {3}, {1, 4}, {2, 5}}) {
        const RunSummary run = run_small(job, {.cut = cut, .recompute = recompute});
        EXPECT_EQ(run.parameters_digest, reference.parameters_digest);
        EXPECT_EQ(run.losses_digest, reference.losses_digest);
        const RunSummary twice =
            run_small(job, {.cut = cut, .recompute = recompute, .replicas = 2});
        EXPECT_EQ(twice.parameters_digest, of_two.parameters_digest);
      }
    }
  }
}

TEST(Tuning, ChangesWhatIsTrainedAlone) {
  config::JobSpec job = job_of(with_adapters());
  const TemporaryFolder before, after;
  job.train.optimizer.learning_rate = 0;
  const checkpoint::Manifest still = manifest_of(job, before);
  job.train.optimizer.learning_rate = 1e-2;
  const checkpoint::Manifest moved = manifest_of(job, after);

  int frozen = 0, trained = 0;
  for (const auto& [name, entry] : moved.tensors) {
    if (!name.starts_with("parameters/")) continue;
    const std::string rest = name.substr(std::string("parameters/").size());
    const bool is_adapter = name.ends_with("lora_A") || name.ends_with("lora_B");
    EXPECT_EQ(entry.digest != still.tensors.at(name).digest, is_adapter) << name;
    EXPECT_EQ(moved.tensors.contains(concat("first_moments/", rest)), is_adapter) << name;
    ++(is_adapter ? trained : frozen);
  }
  EXPECT_EQ(trained, 2 * 4 * 2);
  EXPECT_GT(frozen, 20);
}

/// Calls `then` after every checkpoint.
class AfterSaving final : public Observer {
 public:
  explicit AfterSaving(std::function<void(const SavedCheckpoint&)> then) : then_(std::move(then)) {}
  void saved(const SavedCheckpoint& checkpoint) override { then_(checkpoint); }
  void started(Seconds /*since_start*/) override {}
  void step(const record::StepMetrics& /*metrics*/) override {}
  void interval_ended() override {}
  void validation(std::int64_t /*step*/, double /*loss*/) override {}

 private:
  std::function<void(const SavedCheckpoint&)> then_;
};

class FrozenFile : public testing::TestWithParam<const char*> {
 protected:
  FrozenFile() {
    job_.train.steps = 3;
    saved_.in_background = GetParam() == std::string("background");
    saved_.folder = folder_ / "checkpoints";
    saved_.every = 1;
    saved_.keep = 3;
    saved_.job = "train: {}\n";
  }
  RunSummary train(const std::function<void(const SavedCheckpoint&)>& after = [](const auto&) {}) {
    AfterSaving observer(after);
    return run_small(job_, {.cut = {2}}, {}, device::cpu(), saved_, &observer);
  }
  /// Hard links of the file of step 3.
  static std::uintmax_t names_of(const std::filesystem::path& checkpoints,
                                 const std::string& file) {
    return std::filesystem::hard_link_count(checkpoints / "step-3" / file);
  }
  /// Resumes from step 2.
  RunSummary resumed() {
    Checkpointing from;
    from.resume = saved_.folder / "step-2";
    return run_small(job_, {.cut = {1, 4}}, {}, device::cpu(), from);
  }

  config::JobSpec job_ = job_of(with_adapters(), "bfloat16_weights");
  TemporaryFolder folder_;
  Checkpointing saved_;
};

INSTANTIATE_TEST_SUITE_P(Written, FrozenFile, testing::Values("at_once", "background"),
                         [](const auto& each) { return std::string(each.param); });

TEST_P(FrozenFile, IsWrittenOnceForAllCheckpoints) {
  const RunSummary whole = train();
  for (const char* const rank : {"rank-0", "rank-1"}) {
    EXPECT_EQ(names_of(saved_.folder, concat(rank, ".safetensors")), 1);
    EXPECT_EQ(names_of(saved_.folder, concat(rank, ".frozen.safetensors")), 3);
  }
  const checkpoint::Manifest manifest = checkpoint::load_manifest(saved_.folder / "step-3");
  for (const auto& [name, entry] : manifest.tensors) {
    const bool is_frozen =
        name.starts_with("parameters/") && !name.ends_with("lora_A") && !name.ends_with("lora_B");
    EXPECT_EQ(entry.file.ends_with(".frozen.safetensors"), is_frozen) << name;
  }
  EXPECT_EQ(resumed().parameters_digest, whole.parameters_digest);
}

TEST_P(FrozenFile, GoesWithTheLastCheckpointThatHasIt) {
  saved_.keep = 1;
  train();
  EXPECT_EQ(names_of(saved_.folder, "rank-1.frozen.safetensors"), 1);
}

TEST_P(FrozenFile, IsWrittenAnewWhereTheEarlierOneIsNotWhole) {
  const RunSummary whole = train([](const SavedCheckpoint& checkpoint) {
    if (checkpoint.folder.filename() != "step-1") return;
    std::filesystem::remove(checkpoint.folder / "rank-0.frozen.safetensors");
    std::filesystem::resize_file(checkpoint.folder / "rank-1.frozen.safetensors", 100);
  });
  for (const char* const rank : {"rank-0", "rank-1"})
    EXPECT_EQ(names_of(saved_.folder, concat(rank, ".frozen.safetensors")), 2) << rank;
  EXPECT_EQ(resumed().parameters_digest, whole.parameters_digest);
}

TEST(Tuning, HoldsGradientsAndStateOfWhatIsTrainedAlone) {
  for (const char* const precision : {"float32", "bfloat16_weights"}) {
    const profile::MeasureOptions options{.threads = 1, .least_time = Seconds(0), .least_runs = 1};
    const config::JobSpec tuned = job_of(with_adapters(), precision);
    const chain::Chain chain = profile::measure(model::make_model(tuned.model), tuned, options);
    const auto &embedding = chain.layers.front(), &attention = chain.layers.at(1);
    EXPECT_EQ(embedding.gradients, Bytes(0));
    EXPECT_EQ(embedding.optimizer, Bytes(0));
    // qkv and projection: matrices of 4 x 32, 96 x 4; 4 x 32, 32 x 4.
    const std::int64_t values = 4 * (32 + 96 + 32 + 32);
    EXPECT_EQ(attention.gradients, Bytes(4 * values));
    const std::int64_t master = tuned.train.precision == "float32" ? 0 : 4;
    EXPECT_EQ(attention.optimizer, Bytes((8 + master) * values));
  }
}

TEST(Tuning, OfTheTopKeepsNothingBelowAndGivesTheSameBitsForEverySplit) {
  config::GptSpec spec = small_gpt();
  spec.tied_head = false;
  spec.trained = {"block1.mlp.*", "head.*"};
  const config::JobSpec job = job_of(spec);
  const RunSummary reference = run_small(job, {});
  for (const bool recompute : {false, true}) {
    for (const std::vector<int>& cut : {std::vector<int>{3}, {1, 4}, {2, 5}}) {
      const RunSummary run = run_small(job, {.cut = cut, .recompute = recompute});
      EXPECT_EQ(run.parameters_digest, reference.parameters_digest);
      EXPECT_EQ(run.losses_digest, reference.losses_digest);
    }
  }
  const profile::MeasureOptions options{.threads = 1, .least_time = Seconds(0), .least_runs = 1};
  const auto measured = [&](const config::JobSpec& each) {
    return profile::measure(model::make_model(each.model), each, options);
  };
  const chain::Chain top = measured(job), all = measured(job_of(small_gpt()));
  for (const std::size_t below : {1U, 2U, 3U}) {
    EXPECT_LE(top.layers[below].tape, top.layers[below].output) << below;
    EXPECT_GT(all.layers[below].tape, 2 * all.layers[below].output) << below;
  }
}

// The head's values are drawn in float32, in twice the bytes that it has later.
TEST(Tuning, BeginsWithinWhatItHolds) {
  config::GptSpec spec = with_adapters();
  spec.vocabulary = 5000;
  const model::ChainModel model = model::make_model(spec);
  tier::install_cpu_allocator();
  const auto most_of = [&](const std::string& precision) {
    tier::MemoryAccount& memory = tier::MemoryAccount::open("rank");
    const tier::AccountScope scope(memory);
    memory.reset_peak();
    const Stage stage(model, {1, 2, 3, 4, 5, 6}, 1, model::precision_of(precision));
    EXPECT_GE(memory.live(), stage.parameter_bytes() + stage.gradient_bytes());
    return std::pair(memory.peak(), memory.live());
  };
  const auto [peak, live] = most_of("bfloat16_weights");
  EXPECT_LE(peak, live);
  EXPECT_LT(live / most_of("float32").second, 0.55);
}

class Handed : public testing::TestWithParam<bool> {};

TEST_P(Handed, OnAsPlainWeightsItSaysTheSame) {
  const TemporaryFolder folder;
  config::ModelSpec plain = small_gpt(), tuned = with_adapters();
  if (GetParam()) {
    config::LlamaSpec llama = small_llama();
    plain = llama;
    llama.lora_rank = 3;
    llama.lora_targets = {"q", "v", "down"};
    tuned = llama;
  }
  const Trained trained = train_and_export(job_of(tuned), folder);
  const std::vector<std::int64_t> tokens{3, 1, 4, 1, 5, 9, 2, 6};

  const at::Tensor mine =
      LanguageModel::of_checkpoint(model::make_model(tuned), trained.checkpoint).next(tokens);
  const at::Tensor merged =
      LanguageModel::of_weights(model::make_model(plain), plain, trained.weights).next(tokens);

  EXPECT_LT((mine - merged).abs().max().item<double>(), 1e-5);
  // And the initial weights give something else.
  const TemporaryFolder other;
  config::JobSpec still = job_of(tuned);
  still.train.optimizer.learning_rate = 0;
  const Trained untouched = train_and_export(still, other);
  const at::Tensor before =
      LanguageModel::of_checkpoint(model::make_model(tuned), untouched.checkpoint).next(tokens);
  EXPECT_GT((mine - before).abs().max().item<double>(), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Handed, testing::Bool(),
                         [](const auto& each) { return each.param ? "llama" : "gpt"; });

TEST(Tuning, BeginsWithWeightsThatKnowNoAdapters) {
  const TemporaryFolder folder, out;
  const Trained base = train_and_export(job_of(small_gpt()), folder);
  for (const char* const precision : {"float32", "bfloat16_weights"}) {
    config::JobSpec job = job_of(with_adapters(), precision);
    job.weights = base.weights.string();
    job.train.steps = 1;
    job.train.optimizer.learning_rate = 0;
    EXPECT_NO_THROW(require_weights(model::make_model(job.model), job));
    const TemporaryFolder begun;
    const Trained tuned = train_and_export(job, begun, {.cut = {2}});
    const std::vector<std::int64_t> tokens{3, 1, 4, 1, 5};
    const config::ModelSpec plain = small_gpt();
    const at::Tensor expected =
        LanguageModel::of_weights(model::make_model(plain), plain, base.weights).next(tokens);
    const at::Tensor found =
        LanguageModel::of_checkpoint(model::make_model(job.model), tuned.checkpoint).next(tokens);
    const double least = job.train.precision == "float32" ? 1e-9 : 0.05;
    EXPECT_LT((found - expected).abs().max().item<double>(), least);
  }
}

TEST(Tuning, OfNormsAloneTrainsThem) {
  config::GptSpec spec = small_gpt();
  spec.trained = {"*norm*"};
  const TemporaryFolder folder;
  const checkpoint::Manifest manifest = manifest_of(job_of(spec), folder);
  int moments = 0;
  for (const auto& [name, entry] : manifest.tensors) {
    if (!name.starts_with("first_moments/")) continue;
    EXPECT_NE(name.find("norm"), std::string::npos) << name;
    ++moments;
  }
  EXPECT_EQ(moments, 2 * (2 * 2 + 1));
}

}  // namespace
}  // namespace trireme::runtime
