// SPDX-License-Identifier: Apache-2.0
#include "rows.h"
#include "support/temporary_folder.h"

#include "trireme/data/unigram.h"
#include "trireme/io/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <set>

namespace trireme::data {
namespace {

using support::TemporaryFolder;

/// Text in which every window of 8 bytes is unique.
std::string random_text(std::size_t size) {
  std::mt19937 random(11);
  std::string text;
  while (text.size() + 1 < size) text.push_back(static_cast<char>(random() % 256));
  return text + "\n";
}

const ExampleShape kShape{.input = "tokens", .inputs = 8, .classes = 256};

std::unique_ptr<Dataset> open_file(const std::filesystem::path& file, double validation_fraction,
                                   std::int64_t seed = 1) {
  return open_dataset(
      {.kind = "text", .files = {file.string()}, .validation_fraction = validation_fraction},
      kShape, seed);
}

TEST(Text, TargetIsTheInputShiftedByOne) {
  const TemporaryFolder folder;
  io::write_file(folder / "a", "012345678\n");
  const auto dataset = open_file(folder / "a", 0);

  const MicroBatch batch = dataset->train(0, 3);

  EXPECT_EQ(batch.input.sizes(), (at::IntArrayRef{3, 8}));
  EXPECT_EQ(batch.target.sizes(), (at::IntArrayRef{3, 8}));
  EXPECT_EQ(batch.input.scalar_type(), at::kLong);
  EXPECT_EQ(batch.target.scalar_type(), at::kLong);
  for (const Row& row : rows(batch)) {
    EXPECT_THAT(window(row), testing::AnyOf("012345678", "12345678\n"));
    for (std::size_t t = 0; t + 1 < 8; ++t) EXPECT_EQ(row.second[t], row.first[t + 1]);
  }
}

TEST(Text, BytesAboveAsciiAreTokensUpTo255) {
  const TemporaryFolder folder;
  io::write_file(folder / "a", "\x80\xff\x01\x80\xff\x01\x80\xff\n");
  const auto dataset = open_file(folder / "a", 0);

  EXPECT_THAT(values(dataset->train(0, 1).input),
              testing::ElementsAre(128, 255, 1, 128, 255, 1, 128, 255));
}

TEST(Text, AnEpochHoldsEveryWindowOfItsPhaseOnceFromTheTrainPartAlone) {
  const TemporaryFolder folder;
  const std::string text = random_text(1000);
  io::write_file(folder / "a", text);
  const auto dataset = open_file(folder / "a", 0.25);
  const std::string train = text.substr(0, 750);
  ASSERT_EQ(dataset->train_examples(), 750 / 8 - 1);

  std::set<std::size_t> phases;
  for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
    std::set<std::size_t> starts;
    for (const Row& row :
         rows(dataset->train(epoch * dataset->train_examples(), dataset->train_examples())))
      starts.insert(train.find(window(row)));
    EXPECT_EQ(starts.size(), static_cast<std::size_t>(dataset->train_examples()));
    EXPECT_LT(*starts.rbegin(), train.size());  // npos is larger
    EXPECT_EQ(*starts.rbegin() - *starts.begin(), 8 * (starts.size() - 1));
    phases.insert(*starts.begin());
  }
  EXPECT_GT(phases.size(), 1U);
}

TEST(Text, MicroBatchesAreTheSameRowsHoweverTheBatchIsCut) {
  const TemporaryFolder folder;
  io::write_file(folder / "a", random_text(700));
  const auto dataset = open_file(folder / "a", 0);
  const auto whole = [&](std::int64_t step) { return rows(dataset->train(step * 12, 12)); };

  for (const std::int64_t micro_batch : {1, 2, 3, 4, 6, 12}) {
    const BatchShape shape{.batch = 12, .micro_batch = micro_batch};
    for (const std::int64_t step : {0, 1, 7, 100}) {  // 7 holds the border of an epoch (86 windows)
      std::vector<Row> cut;
      for (std::int64_t index = 0; index < 12 / micro_batch; ++index)
        for (const Row& row : rows(train_micro_batch(*dataset, shape, step, index)))
          cut.push_back(row);
      EXPECT_EQ(cut, whole(step)) << micro_batch << " at step " << step;
    }
  }
}

TEST(Text, AFreshDatasetGoesOnWhereAnotherStopped) {
  const TemporaryFolder folder;
  io::write_file(folder / "a", random_text(700));
  const BatchShape shape{.batch = 8, .micro_batch = 4};
  const auto first = open_file(folder / "a", 0.1);
  for (std::int64_t step = 0; step < 50; ++step) train_micro_batch(*first, shape, step, 0);

  const auto resumed = open_file(folder / "a", 0.1);

  EXPECT_EQ(rows(train_micro_batch(*resumed, shape, 50, 1)),
            rows(train_micro_batch(*first, shape, 50, 1)));
  EXPECT_NE(rows(train_micro_batch(*open_file(folder / "a", 0.1, 2), shape, 50, 1)),
            rows(train_micro_batch(*first, shape, 50, 1)));
}

TEST(Text, ValidationIsSpreadEvenlyOverTheEndWithoutShuffling) {
  const TemporaryFolder folder;
  const std::string text = random_text(1000);
  io::write_file(folder / "a", text);
  const auto dataset = open_file(folder / "a", 0.201);
  // 201 bytes: a window starts at 0..192 of them, three at 0, 96 and 192.
  EXPECT_EQ(dataset->validation_examples(), 25);

  const auto all = rows(dataset->validation(0, 3, 3));

  EXPECT_EQ(window(all[0]), text.substr(799, 9));
  EXPECT_EQ(window(all[1]), text.substr(799 + 96, 9));
  EXPECT_EQ(window(all[2]), text.substr(799 + 192, 9));
  EXPECT_EQ(rows(validation_micro_batch(*dataset, 1, 2, 3)).front(), all[2]);
  EXPECT_EQ(rows(open_file(folder / "a", 0.201, 99)->validation(0, 3, 3)), all);
}

TEST(Text, FilesFollowEachOtherByNameEachEndingWithANewline) {
  const TemporaryFolder folder;
  io::write_file(folder / "b.txt", "second");
  io::write_file(folder / "a.txt", "first\n");
  io::write_file(folder / "sub/c.txt", "not matched");
  std::filesystem::create_directory(folder / "folder.txt");
  io::write_file(folder / "joined", "first\nsecond\n");
  const auto pattern = folder / "*.txt";

  EXPECT_EQ(open_file(pattern, 0)->digest(), open_file(folder / "joined", 0)->digest());
  EXPECT_EQ(open_file(pattern, 0)->describe(),
            "text, 2 files: 13 tokens to train on, none for validation");
}

TEST(Text, AFileWithSeveralNamesCountsOnceUnderItsOwn) {
  const TemporaryFolder folder;
  io::write_file(folder / "texts/GPL-1", "version one\n");
  io::write_file(folder / "texts/GPL-3", "version three\n");
  io::write_file(folder / "elsewhere", "outside\n");
  std::filesystem::create_symlink("GPL-3", folder / "texts/GPL");
  std::filesystem::create_symlink(folder / "elsewhere", folder / "texts/B");
  std::filesystem::create_symlink(folder / "elsewhere", folder / "texts/Z");
  io::write_file(folder / "joined", "outside\nversion one\nversion three\n");

  const auto all = open_file(folder / "texts/*", 0);
  const auto named_twice =
      open_dataset({.files = {(folder / "texts/*").string(), (folder / "texts/GPL").string()},
                    .validation_fraction = 0},
                   kShape, 1);

  EXPECT_EQ(all->digest(), open_file(folder / "joined", 0)->digest());
  EXPECT_EQ(named_twice->digest(), all->digest());
}

TEST(Text, DigestTellsOtherContentApart) {
  const TemporaryFolder folder;
  io::write_file(folder / "a", "0123456789\n");
  io::write_file(folder / "b", "0123456799\n");

  EXPECT_NE(open_file(folder / "a", 0)->digest(), open_file(folder / "b", 0)->digest());
}

TEST(Text, UnigramLossSplitsTheCountsAtTheValidationPart) {
  const TemporaryFolder folder;
  // 40 bytes: 30 of a and b, then 10 of which 2 are newlines.
  io::write_file(folder / "a",
                 "ababababababababababababababab"
                 "aaaa\nbbbb\n");

  const auto loss = open_file(folder / "a", 0.25)->unigram_loss();

  ASSERT_TRUE(loss.has_value());
  EXPECT_NEAR(loss->entropy, -0.8 * std::log(0.4) - 0.2 * std::log(0.2), 1e-12);
  EXPECT_NEAR(loss->cross_entropy, -0.8 * std::log(16.0 / 286) - 0.2 * std::log(1.0 / 286), 1e-12);
  EXPECT_FALSE(open_file(folder / "a", 0)->unigram_loss().has_value());
}

}  // namespace
}  // namespace trireme::data
