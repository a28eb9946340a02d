// A model that is exported from one run and starts another one, end to end.
// SPDX-License-Identifier: Apache-2.0
#include "saved_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace trireme {
namespace {

using testing::HasSubstr;

TEST_F(SavedRun, IsExportedAndBegunWithAgain) {
  const CommandResult exported = trireme("export " + run() + " -o " + out_);
  ASSERT_EQ(exported.exit_code, 0) << exported.errors;
  EXPECT_THAT(exported.out, HasSubstr("exported " + run() + "/checkpoints/step-3 to " + out_));
  const auto config = nlohmann::json::parse(text_of(out_ + "/config.json"));
  EXPECT_EQ(config["model_type"], "gpt2");
  EXPECT_EQ(config["n_embd"], 32);

  const std::string job =
      own_.file("tuned.yaml", "model: {weights: " + out_ +
                                  "}\n"
                                  "data: {kind: synthetic}\n"
                                  "train: {steps: 1, batch: 8, micro_batch: 2, optimizer: "
                                  "{learning_rate: 0}}\n"
                                  "report: {directory: " +
                                  (own_.path() / "tuned").string() + "}\n");
  const CommandResult tuned = trireme("train " + job + " --set pipeline.stages=2");
  ASSERT_EQ(tuned.exit_code, 0) << tuned.errors;
  EXPECT_THAT(tuned.out, HasSubstr("starts with the weights in " + out_));
  EXPECT_EQ(digest_of(own_.path() / "tuned"), digest_of(run()));
}

TEST_F(SavedRun, IsTunedByAdaptersAndHandedOnAsAPlainModel) {
  ASSERT_EQ(trireme("export " + run() + " -o " + out_).exit_code, 0);
  const std::string tuned = (own_.path() / "tuned").string();
  const auto with = [&](const std::string& trained) {
    return own_.file("tuned.yaml", "model: {weights: " + out_ + ", lora_rank: 2" + trained +
                                       "}\n"
                                       "data: {kind: synthetic}\n"
                                       "train: {steps: 2, batch: 4, micro_batch: 2, precision: "
                                       "bfloat16_weights}\n"
                                       "checkpoint: {every: 2}\n"
                                       "report: {directory: " +
                                       tuned + "}\n");
  };
  const CommandResult refused = trireme("train " + with(", trained: [\"*lora*\", \"hed.*\"]"));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.errors, HasSubstr("tuned.yaml:1: model.trained has 'hed.*', which matches no "
                                        "parameter"));
  const CommandResult trained = trireme("train " + with("") + " --set pipeline.stages=2");
  ASSERT_EQ(trained.exit_code, 0) << trained.errors;
  const CommandResult generated =
      trireme("generate " + tuned + " --prompt-tokens 1 2 3 --tokens 4 --temperature 0");
  EXPECT_EQ(generated.exit_code, 0) << generated.errors;
  const CommandResult exported = trireme("export " + tuned + " -o " + out_ + "-tuned");
  ASSERT_EQ(exported.exit_code, 0) << exported.errors;
  const std::string file = text_of(out_ + "-tuned/model.safetensors");
  EXPECT_EQ(file.find("lora"), std::string::npos);
  const CommandResult plain =
      trireme("generate " + out_ + "-tuned --prompt-tokens 1 2 3 --tokens 4 --temperature 0");
  EXPECT_EQ(plain.exit_code, 0) << plain.errors;
}

TEST_F(SavedRun, HandsItsAdaptersOnAndARunBeginsWithThem) {
  ASSERT_EQ(trireme("export " + run() + " -o " + out_).exit_code, 0);
  const auto job = [&](const std::string& name, const std::string& model, double rate) {
    return own_.file(name + ".yaml", "model: {weights: " + out_ + ", " + model +
                                         "}\n"
                                         "data: {kind: synthetic}\n"
                                         "train: {steps: 2, batch: 4, micro_batch: 2, optimizer: "
                                         "{learning_rate: " +
                                         std::to_string(rate) +
                                         "}}\n"
                                         "checkpoint: {every: 2}\n"
                                         "report: {directory: " +
                                         (own_.path() / name).string() + "}\n");
  };
  const std::string adapters = (own_.path() / "adapters").string();
  const std::string tuned = (own_.path() / "tuned").string();
  ASSERT_EQ(trireme("train " + job("tuned", "lora_rank: 2, lora_targets: [up]", 0.01)).exit_code,
            0);

  const CommandResult exported = trireme("export " + tuned + " --adapters -o " + adapters);

  ASSERT_EQ(exported.exit_code, 0) << exported.errors;
  EXPECT_THAT(exported.out, HasSubstr("(adapter_model.safetensors, adapter_config.json)"));
  const auto config = nlohmann::json::parse(text_of(adapters + "/adapter_config.json"));
  EXPECT_EQ(config["r"], 2);
  EXPECT_EQ(config["base_model_name_or_path"], out_);
  EXPECT_EQ(config["target_modules"], nlohmann::json::array({"mlp.c_fc"}));
  const CommandResult begun =
      trireme("train " + job("begun", "adapters: " + adapters, 0) + " --set pipeline.stages=2");
  ASSERT_EQ(begun.exit_code, 0) << begun.errors;
  EXPECT_THAT(begun.out,
              HasSubstr("starts with the weights in " + out_ + " and the adapters in " + adapters));
  EXPECT_EQ(digest_of(own_.path() / "begun"), digest_of(tuned));
  // A run's folder needs neither the weights nor the adapters that it began with.
  std::filesystem::remove_all(adapters);
  const CommandResult generated =
      trireme("generate " + (own_.path() / "begun").string() + " --prompt-tokens 1 2 3 --tokens 2");
  EXPECT_EQ(generated.exit_code, 0) << generated.errors;
}

TEST_F(SavedRun, HasNoAdaptersToHandOnWithoutThem) {
  const CommandResult none = trireme("export " + run() + " --adapters -o " + out_);
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.errors, HasSubstr("has none (model.lora_rank): export it as a whole"));
  const TemporaryFolder other;
  const std::string job = small_job(other, "checkpoint: {every: 2}\n");
  ASSERT_EQ(trireme("train " + job + " --set model.lora_rank=2").exit_code, 0);
  const CommandResult alone =
      trireme("export " + small_run(other).string() + " --adapters -o " + out_);
  EXPECT_EQ(alone.exit_code, 2);
  EXPECT_THAT(alone.errors, HasSubstr("did not begin with any (model.weights)"));
  EXPECT_FALSE(std::filesystem::exists(out_));
}

TEST_F(SavedRun, IsExportedWithWhatBelongsToItsTokens) {
  ASSERT_EQ(trireme("export " + run() + " -o " + out_).exit_code, 0);
  own_.file("model/tokenizer.json", "{}");
  auto config = nlohmann::json::parse(text_of(out_ + "/config.json"));
  config["eos_token_id"] = 7;
  own_.file("model/config.json", config.dump());
  const std::string job =
      own_.file("tuned.yaml", "model: {weights: " + out_ +
                                  "}\n"
                                  "data: {kind: synthetic}\n"
                                  "train: {steps: 1, batch: 4, micro_batch: 2}\n"
                                  "checkpoint: {every: 1}\n"
                                  "report: {directory: " +
                                  (own_.path() / "tuned").string() + "}\n");
  ASSERT_EQ(trireme("train " + job).exit_code, 0);

  const CommandResult exported =
      trireme("export " + (own_.path() / "tuned").string() + " -o " + out_ + "-tuned");

  ASSERT_EQ(exported.exit_code, 0) << exported.errors;
  EXPECT_THAT(exported.out, HasSubstr("(model.safetensors, config.json, tokenizer.json)"));
  EXPECT_EQ(text_of(out_ + "-tuned/tokenizer.json"), "{}");
  EXPECT_EQ(nlohmann::json::parse(text_of(out_ + "-tuned/config.json"))["eos_token_id"], 7);
}

TEST_F(SavedRun, IsExportedIntoOneFileOfAnotherTypeFromAnEarlierStep) {
  const std::string file = out_ + ".safetensors";
  const CommandResult exported =
      trireme("export " + run() + " -o " + file + " --type bfloat16 --step 2");
  ASSERT_EQ(exported.exit_code, 0) << exported.errors;
  EXPECT_THAT(exported.out, HasSubstr("/step-2 to " + file));
  EXPECT_THAT(text_of(file), HasSubstr(R"("transformer.wte.weight":{"dtype":"BF16")"));
  expect_no_drafts();
}

TEST_F(SavedRun, IsExportedIntoAFolderThatIsNamedWithASlash) {
  const CommandResult exported = trireme("export " + run() + " -o " + out_ + "/");
  EXPECT_EQ(exported.exit_code, 0) << exported.errors;
  EXPECT_TRUE(std::filesystem::exists(out_ + "/config.json"));
  expect_no_drafts();
}

TEST_F(SavedRun, IsExportedBesideAFolderThatIsCalledADraft) {
  std::filesystem::create_directories(out_ + ".draft");
  own_.file("model.draft/mine", "mine");
  const CommandResult exported = trireme("export " + run() + " -o " + out_);
  EXPECT_EQ(exported.exit_code, 0) << exported.errors;
  EXPECT_EQ(text_of(out_ + ".draft/mine"), "mine");
}

TEST_F(SavedRun, IsNotExportedOverWhatIsThere) {
  own_.file("model", "mine");
  const CommandResult exported = trireme("export " + run() + " -o " + out_);
  EXPECT_EQ(exported.exit_code, 2);
  EXPECT_THAT(exported.errors, HasSubstr(out_ + ": exists already"));
  EXPECT_EQ(text_of(out_), "mine");
}

TEST_F(SavedRun, SaysWhichStepsItHas) {
  const CommandResult exported = trireme("export " + run() + " -o " + out_ + " --step 1");
  EXPECT_EQ(exported.exit_code, 2);
  EXPECT_THAT(exported.errors, HasSubstr("has no checkpoint of step 1, only of 2, 3"));
  EXPECT_FALSE(std::filesystem::exists(out_));
}

TEST_F(SavedRun, ThatIsDamagedLeavesNothingBehind) {
  std::filesystem::copy(run(), own_.path() / "run", std::filesystem::copy_options::recursive);
  const auto file = own_.path() / "run" / "checkpoints" / "step-3" / "rank-0.safetensors";
  std::string bytes = text_of(file);
  for (std::size_t i = bytes.size() / 4; i < bytes.size(); i += 997)
    bytes[i] = static_cast<char>(~bytes[i]);
  own_.file("run/checkpoints/step-3/rank-0.safetensors", bytes);

  const CommandResult exported =
      trireme("export " + (own_.path() / "run").string() + " -o " + out_);

  EXPECT_EQ(exported.exit_code, 2);
  EXPECT_THAT(exported.errors, HasSubstr("is not what was written: the file is damaged"));
  EXPECT_FALSE(std::filesystem::exists(out_));
  expect_no_drafts();
}

TEST_F(SavedRun, WithoutCheckpointsSaysWhatIsMissing) {
  const CommandResult exported = trireme("export " + own_.path().string() + " -o " + out_);
  EXPECT_EQ(exported.exit_code, 2);
  EXPECT_THAT(exported.errors, HasSubstr("has no checkpoints"));
  const TemporaryFolder other;
  ASSERT_EQ(trireme("train " + small_job(other)).exit_code, 0);
  const CommandResult said = trireme("generate " + small_run(other).string() + " --prompt a");
  EXPECT_EQ(said.exit_code, 2);
  EXPECT_THAT(said.errors, HasSubstr("has no checkpoints: name the folder of a run that keeps some "
                                     "(checkpoint.every)"));
}

TEST_F(SavedRun, IsNotExportedIntoAFile) {
  own_.file("e", "mine");
  const CommandResult exported =
      trireme("export " + run() + " -o " + own_.path().string() + "/e/f");
  EXPECT_EQ(exported.exit_code, 1);
  EXPECT_THAT(exported.errors, HasSubstr("trireme: " + own_.path().string() +
                                         "/e/f: cannot be made: Not a directory: name a place"));
}

TEST_F(SavedRun, OfAnotherModelIsRefusedBeforeAnythingIsMeasured) {
  ASSERT_EQ(trireme("export " + run() + " -o " + out_ + ".safetensors").exit_code, 0);
  const std::string job = small_job(own_) + " --set model.weights=" + out_ +
                          ".safetensors --set model.blocks=3 --set memory.device_budget=64MiB";
  for (const char* command : {"check ", "train "}) {
    const CommandResult refused = trireme(command + job);
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.errors, HasSubstr("has no tensor 'transformer.h.2."));
    EXPECT_EQ(refused.errors.find("measuring"), std::string::npos) << refused.errors;
  }
}

TEST(Options, ThatNameOneFileAreRefused) {
  const TemporaryFolder folder;
  const std::string here = "cd " + folder.path().string() + " && " TRIREME_BINARY;
  const std::string job = small_job(folder);
  for (const std::string& command :
       {" train " + job + " --trace x --report ./x", " check " + job + " -o x --report $PWD/x"}) {
    const CommandResult refused = run_command(here + command);
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.errors, HasSubstr("does: give each a file of its own"));
  }
}

TEST(Check, OfAJobWithoutItsDataSaysWhereItNamesThem) {
  const TemporaryFolder folder;
  const std::string job = folder.file("a.yaml",
                                      "model: {kind: gpt, blocks: 1, width: 16, heads: 2}\n"
                                      "data: {files: [\"no/such/*.txt\"]}\n");
  const CommandResult refused = trireme("check " + job);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.errors, HasSubstr("a.yaml:2: data.files"));
}

}  // namespace
}  // namespace trireme
