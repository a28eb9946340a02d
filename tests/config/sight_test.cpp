// SPDX-License-Identifier: Apache-2.0
#include "trireme/config/sight.h"

#include <gtest/gtest.h>

namespace trireme::config {
namespace {

std::int64_t longest(const std::string& kind, const std::string& more = "") {
  return longest_text(io::parse(R"({"model_type": ")" + kind + "\"" + more + "}", "w/config.json"));
}

TEST(LongestText, IsOfTheModelWhateverTheContextOfTraining) {
  EXPECT_EQ(longest("llama", R"(, "max_position_embeddings": 4096)"), 4096);
  EXPECT_EQ(longest("gpt2", R"(, "n_positions": 512)"), 512);
}

// transformers 5.24: defaults of the configuration classes.
TEST(LongestText, HasTheDefaultsOfTransformers) {
  EXPECT_EQ(longest("llama"), 2048);
  EXPECT_EQ(longest("mistral"), 131072);
  EXPECT_EQ(longest("qwen2"), 32768);
  EXPECT_EQ(longest("qwen3"), 32768);
  EXPECT_EQ(longest("olmo2"), 2048);
  EXPECT_EQ(longest("granite"), 2048);
  EXPECT_EQ(longest("smollm3"), 32768);
  EXPECT_EQ(longest("phi3"), 4096);
  EXPECT_EQ(longest("gemma"), 8192);
  EXPECT_EQ(longest("gemma2"), 8192);
  EXPECT_EQ(longest("gemma3_text"), 131072);
}

}  // namespace
}  // namespace trireme::config
