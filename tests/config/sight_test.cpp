// SPDX-License-Identifier: Apache-2.0
#include "trireme/config/sight.h"

#include "support/input_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::config {
namespace {

using support::input_error;
using testing::ElementsAre;
using testing::HasSubstr;
using Window = std::optional<int>;

Sight sight_of(const std::string& kind, const std::string& more) {
  return read_sight(io::parse(
      R"({"model_type": ")" + kind + R"(", "num_hidden_layers": 3, "n_layer": 3)" + more + "}",
      "w/config.json"));
}

TEST(Sight, IsOfTheLongestTextWhateverTheContextOfTraining) {
  EXPECT_EQ(sight_of("llama", R"(, "max_position_embeddings": 4096)").tokens, 4096);
  EXPECT_EQ(sight_of("gpt2", R"(, "n_positions": 512)").tokens, 512);
  EXPECT_THAT(sight_of("llama", "").windows, ElementsAre(Window(), Window(), Window()));
}

// transformers 5.24: defaults of LlamaConfig, MistralConfig, Qwen2Config.
TEST(Sight, HasTheDefaultsOfTransformers) {
  EXPECT_EQ(sight_of("llama", "").tokens, 2048);
  EXPECT_EQ(sight_of("mistral", "").tokens, 131072);
  EXPECT_EQ(sight_of("qwen2", "").tokens, 32768);
  EXPECT_THAT(sight_of("mistral", "").windows, ElementsAre(4096, 4096, 4096));
}

TEST(Sight, OfAMistralHasItsWindowInEveryBlock) {
  EXPECT_THAT(sight_of("mistral", R"(, "sliding_window": 16)").windows, ElementsAre(16, 16, 16));
  EXPECT_THAT(sight_of("mistral", R"(, "sliding_window": null)").windows,
              ElementsAre(Window(), Window(), Window()));
}

TEST(Sight, OfAQwen2HasWindowsWhereItsConfigSays) {
  EXPECT_THAT(sight_of("qwen2", R"(, "sliding_window": 16)").windows,
              ElementsAre(Window(), Window(), Window()));
  const std::string window = R"(, "use_sliding_window": true, "sliding_window": 16)";
  EXPECT_THAT(sight_of("qwen2", window).windows, ElementsAre(Window(), Window(), Window()));
  EXPECT_THAT(sight_of("qwen2", window + R"(, "max_window_layers": 2)").windows,
              ElementsAre(Window(), Window(), 16));
  EXPECT_THAT(sight_of("qwen2", window + R"(, "max_window_layers": 0)").windows,
              ElementsAre(16, 16, 16));
  EXPECT_THAT(
      sight_of("qwen2", window + R"(, "max_window_layers": 2, "layer_types": )"
                                 R"(["full_attention", "sliding_attention", "full_attention"])")
          .windows,
      ElementsAre(Window(), 16, Window()));
  EXPECT_THAT(
      input_error([&] { sight_of("qwen2", window + R"(, "layer_types": ["full_attention"])"); }),
      HasSubstr("has 1 entries, but the model has 3 blocks: must have one for each"));
}

}  // namespace
}  // namespace trireme::config
