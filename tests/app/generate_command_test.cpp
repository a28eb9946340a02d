// `trireme generate` end to end: a text that a run, or an exported model, goes on with.
// SPDX-License-Identifier: Apache-2.0
#include "saved_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace trireme {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST_F(SavedRun, GoesOnWithTokensAsItsWeightsDo) {
  ASSERT_EQ(trireme("export " + run() + " -o " + out_).exit_code, 0);
  const std::string options = " --prompt-tokens 1,2,3 --tokens 5 --seed 4";
  const CommandResult one = trireme("generate " + run() + options);
  const CommandResult two = trireme("generate " + out_ + options);
  ASSERT_EQ(one.exit_code, 0) << one.errors;
  EXPECT_THAT(one.out, StartsWith("1,2,3,"));
  EXPECT_EQ(std::count(one.out.begin(), one.out.end(), ','), 7);
  EXPECT_EQ(one.out, two.out);
}

TEST_F(SavedRun, OfNoTextTakesNoText) {
  const CommandResult text = trireme("generate " + run() + " --prompt hello");
  EXPECT_EQ(text.exit_code, 2);
  EXPECT_THAT(text.errors, HasSubstr("give their numbers with --prompt-tokens"));
  const CommandResult unknown = trireme("generate " + run() + " --prompt-tokens 1,64");
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.errors, HasSubstr("64 is not one of the model's tokens, 0 to 63"));
}

TEST_F(SavedRun, TakesTokensInDecimalDigitsAlone) {
  const auto errors = [](const std::string& tokens) {
    const CommandResult result = trireme("generate " + run() + " --prompt-tokens '" + tokens + "'");
    EXPECT_EQ(result.exit_code, 2) << tokens;
    return result.errors;
  };
  for (const char* const wrong : {"", "1,,2", "1,"})
    EXPECT_THAT(errors(wrong), HasSubstr("--prompt-tokens: an empty text is not a token")) << wrong;
  for (const std::string wrong : {"0x10", "010", "1.5", "a", "99999999999999999999"})
    EXPECT_THAT(errors("1," + wrong), HasSubstr("--prompt-tokens: " + wrong + " is not a token"));
  EXPECT_THAT(trireme("generate " + run() + " --prompt-tokens '1, 0,2' --tokens 1").out,
              StartsWith("1,0,2,"));
}

TEST_F(SavedRun, WhoseTrainingDivergedSaysSo) {
  ASSERT_EQ(trireme("export " + run() + " -o " + out_).exit_code, 0);
  const std::string file = out_ + "/model.safetensors";
  std::string bytes = text_of(file);
  // The header, which says where the values are, comes before them.
  const auto fill = [&, begin = bytes.rfind('}') + 1](char byte) {
    std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(begin), bytes.end(), byte);
    own_.file("model/model.safetensors", bytes);
  };
  fill('\x7F');  // all values are 3.4e38: finite, their products are not
  for (const char* const temperature : {"1", "0"}) {
    const CommandResult said =
        trireme("generate " + out_ + " --prompt-tokens 1 --temperature " + temperature);
    EXPECT_EQ(said.exit_code, 1);
    EXPECT_THAT(said.errors, HasSubstr(out_ + ": the model gives no finite values"));
  }
  fill('\xFF');  // NaN
  const CommandResult refused = trireme("generate " + out_ + " --prompt-tokens 1");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.errors, HasSubstr("model.safetensors: tensor '"));
  EXPECT_THAT(refused.errors, HasSubstr("' holds nan at index "));
  const CommandResult said = trireme("generate " + run() + " --prompt-tokens 1 --temperature nan");
  EXPECT_EQ(said.exit_code, 2);
  EXPECT_THAT(said.errors, HasSubstr("--temperature: is nan, must be a number from 0 to 1000"));
}

TEST(Generate, GoesOnWithATextOfBytes) {
  const TemporaryFolder folder;
  const std::string text = folder.file("text", std::string(2000, 'a'));
  const std::string job =
      folder.file("bytes.yaml",
                  "model: {kind: gpt, blocks: 1, width: 16, heads: 2, context: 8}\n"
                  "data: {kind: text, files: [" +
                      text +
                      "], validation_fraction: 0}\n"
                      "train: {steps: 30, batch: 8, optimizer: {learning_rate: 0.01}}\n"
                      "checkpoint: {every: 30}\n"
                      "report: {directory: " +
                      (folder.path() / "run").string() + "}\n");
  ASSERT_EQ(trireme("train " + job).exit_code, 0);
  const CommandResult said = trireme("generate " + (folder.path() / "run").string() +
                                     " --prompt aaaa --tokens 12 --temperature 0");
  EXPECT_EQ(said.exit_code, 0) << said.errors;
  EXPECT_EQ(said.out, std::string(16, 'a') + "\n");
}

TEST_F(SavedRun, SaysHowMuchItSeesOfATextBeyondItsContext) {
  const int context = nlohmann::json::parse([&] {
    EXPECT_EQ(trireme("export " + run() + " -o " + out_).exit_code, 0);
    return text_of(out_ + "/config.json");
  }())["n_positions"];
  const auto errors = [&](int prompt, int tokens) {
    std::string numbers = "1";
    for (int i = 1; i < prompt; ++i) numbers += ",1";
    const CommandResult said = trireme("generate " + run() + " --prompt-tokens " + numbers +
                                       " --tokens " + std::to_string(tokens));
    EXPECT_EQ(said.exit_code, 0) << said.errors;
    return said.errors;
  };
  EXPECT_EQ(errors(context - 3, 4), "");
  const std::string newest = "note: of a text of more than " + std::to_string(context) +
                             " tokens the model sees the newest " +
                             std::to_string(context - context / 4) + " to " +
                             std::to_string(context) + "\n";
  EXPECT_EQ(errors(context - 3, 5), newest);
  EXPECT_EQ(errors(context + 3, 4), "note: the model sees at most " + std::to_string(context) +
                                        " tokens: of the prompt's " + std::to_string(context + 3) +
                                        " the first 3 are dropped\n" + newest);
}

TEST(Generate, OfWhatIsNoModelSaysWhatIsMissing) {
  const TemporaryFolder folder;
  const CommandResult said = trireme("generate " + folder.path().string() + " --prompt a");
  EXPECT_EQ(said.exit_code, 2);
  EXPECT_THAT(said.errors,
              HasSubstr("is neither a run's folder nor one with weights and their config.json"));
}

}  // namespace
}  // namespace trireme
