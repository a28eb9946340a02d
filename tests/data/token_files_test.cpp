// SPDX-License-Identifier: Apache-2.0
#include "rows.h"
#include "support/input_error.h"
#include "support/little_endian.h"
#include "support/temporary_folder.h"

#include "trireme/io/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace trireme::data {
namespace {

using support::input_error;
using support::TemporaryFolder;
using testing::HasSubstr;

/// `count` tokens of `bytes` bytes from `first` on, little-endian.
std::string rising(std::uint64_t first, std::uint64_t count, int bytes) {
  std::string content;
  for (std::uint64_t token = first; token < first + count; ++token)
    content += support::little_endian(token, bytes);
  return content;
}

config::DataSpec spec_of(const std::filesystem::path& files, int bytes, double validation = 0) {
  return {.kind = "tokens",
          .files = {files.string()},
          .validation_fraction = validation,
          .token_bytes = bytes};
}

const ExampleShape kShape{.input = "tokens", .inputs = 4, .classes = 100'000};

TEST(TokenFiles, AreReadInBothWidths) {
  const TemporaryFolder folder;
  io::write_file(folder / "two", rising(65'530, 5, 2));
  io::write_file(folder / "four", rising(65'533, 5, 4));

  EXPECT_THAT(values(open_dataset(spec_of(folder / "two", 2), kShape, 1)->train(0, 1).input),
              testing::ElementsAre(65'530, 65'531, 65'532, 65'533));
  EXPECT_THAT(values(open_dataset(spec_of(folder / "four", 4), kShape, 1)->train(0, 1).target),
              testing::ElementsAre(65'534, 65'535, 65'536, 65'537));
}

TEST(TokenFiles, AreOneRowThatWindowsCross) {
  const TemporaryFolder folder;
  // 3 + 1 + 2 + 40 tokens: the first windows cross up to three file borders.
  io::write_file(folder / "a.bin", rising(0, 3, 2));
  io::write_file(folder / "b.bin", rising(3, 1, 2));
  io::write_file(folder / "c.bin", rising(4, 2, 2));
  io::write_file(folder / "d.bin", rising(6, 40, 2));
  const auto dataset = open_dataset(spec_of(folder / "*.bin", 2), kShape, 1);

  std::int64_t least = 100;
  for (const Row& row : rows(dataset->train(0, 50 * dataset->train_examples()))) {
    std::vector<std::int64_t> expected(5);
    std::iota(expected.begin(), expected.end(), row.first.front());
    EXPECT_EQ(row, Row(std::vector(expected.begin(), expected.end() - 1),
                       std::vector(expected.begin() + 1, expected.end())));
    least = std::min(least, expected.front());
  }
  EXPECT_EQ(least, 0);
}

TEST(TokenFiles, SayWhereATokenOutsideTheVocabularyStands) {
  const TemporaryFolder folder;
  io::write_file(folder / "a.bin", rising(10, 10, 2));
  io::write_file(folder / "b.bin", rising(0, 3, 2) + rising(50'000, 1, 2) + rising(0, 3, 2));
  ExampleShape shape = kShape;
  shape.classes = 100;

  const std::string message =
      input_error([&] { open_dataset(spec_of(folder / "*.bin", 2), shape, 1); });

  EXPECT_THAT(message,
              HasSubstr((folder / "b.bin").string() + ": token 3 (the token at byte 6) is 50000"));
  EXPECT_THAT(message, HasSubstr("vocabulary = 100"));
}

TEST(TokenFiles, AcceptTheVocabularysLastToken) {
  const TemporaryFolder folder;
  io::write_file(folder / "a.bin", rising(95, 5, 2));
  ExampleShape shape = kShape;
  shape.classes = 100;

  EXPECT_THAT(values(open_dataset(spec_of(folder / "a.bin", 2), shape, 1)->train(0, 1).target),
              testing::ElementsAre(96, 97, 98, 99));
}

TEST(TokenFiles, MustHoldWholeTokens) {
  const TemporaryFolder folder;
  io::write_file(folder / "a.bin", std::string(42, 'x'));

  EXPECT_THAT(input_error([&] { open_dataset(spec_of(folder / "a.bin", 4), kShape, 1); }),
              HasSubstr("a.bin: the size is 42 bytes, must be a multiple of data.token_bytes = 4"));
}

TEST(TokenFiles, AreLookedThroughToTheirLastTokenWhenOpened) {
  const TemporaryFolder folder;
  ExampleShape shape = kShape;
  shape.classes = 1 << 16;
  const std::string good = rising(0, 1 << 16, 4);
  std::string all;
  for (int i = 0; i < 65; ++i) all += good;  // more than is looked at in one go
  io::write_file(folder / "a.bin", all + rising(1 << 16, 1, 4));

  EXPECT_THAT(input_error([&] { open_dataset(spec_of(folder / "a.bin", 4), shape, 1); }),
              HasSubstr("a.bin: token 4259840 (the token at byte 17039360) is 65536"));
}

TEST(TokenFiles, OfFourBytesAreNotReadAsTwo) {
  const TemporaryFolder folder;
  io::write_file(folder / "a.bin", rising(70'000, 100, 4));
  io::write_file(folder / "b.bin", rising(1, 100, 4));

  for (const std::string name : {"a.bin", "b.bin"})
    EXPECT_THAT(input_error([&] { open_dataset(spec_of(folder / name, 2), kShape, 1); }),
                HasSubstr("say data.token_bytes: 4"));
}

TEST(TokenFiles, OfTwoBytesSayWhatTheyCannotName) {
  const TemporaryFolder folder;
  io::write_file(folder / "a.bin", rising(1, 100, 2));

  EXPECT_THAT(open_dataset(spec_of(folder / "a.bin", 2), kShape, 1)->describe(),
              HasSubstr("2 bytes per token (data.token_bytes), which name 65536 of the "
                        "vocabulary's 100000"));
}

TEST(TokenFiles, MustNotBeEmpty) {
  const TemporaryFolder folder;
  io::write_file(folder / "a.bin", "");

  EXPECT_THAT(input_error([&] { open_dataset(spec_of(folder / "a.bin", 2), kShape, 1); }),
              HasSubstr("a.bin: the file is empty"));
}

TEST(TokenFiles, DigestSeesWidthSizeAndContent) {
  const TemporaryFolder folder;
  io::write_file(folder / "a", rising(0, 1 << 20, 4));
  io::write_file(folder / "longer", rising(0, (1 << 20) + 1, 4));
  io::write_file(folder / "other", rising(1, 1 << 20, 4));
  io::write_file(folder / "copy", rising(0, 1 << 20, 4));
  const auto digest = [&](const std::string& name, int bytes) {
    ExampleShape shape = kShape;
    shape.classes = bytes == 2 ? 1 << 16 : 1 << 21;
    return open_dataset(spec_of(folder / name, bytes), shape, 1)->digest();
  };

  EXPECT_EQ(digest("copy", 4), digest("a", 4));
  EXPECT_NE(digest("a", 2), digest("a", 4));
  EXPECT_NE(digest("longer", 4), digest("a", 4));
  EXPECT_NE(digest("other", 4), digest("a", 4));
}

TEST(TokenFiles, UnigramLossCountsAcrossReadingBlocks) {
  const TemporaryFolder folder;
  // Twice 0..65535 to train on, then 0..65535 once more: every token equally often.
  const std::string all = rising(0, 1 << 16, 2);
  io::write_file(folder / "a", all + all + all);

  const auto loss = open_dataset(spec_of(folder / "a", 2, 1.0 / 3), kShape, 1)->unigram_loss();

  ASSERT_TRUE(loss.has_value());
  EXPECT_NEAR(loss->entropy, std::log(65'536), 1e-9);
  EXPECT_NEAR(loss->cross_entropy, -std::log(3.0 / (2 * 65'536 + 100'000)), 1e-9);
}

}  // namespace
}  // namespace trireme::data
