// SPDX-License-Identifier: Apache-2.0
#include "rows.h"
#include "support/document_file.h"
#include "support/input_error.h"
#include "support/temporary_folder.h"

#include "trireme/io/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

namespace trireme::data {
namespace {

using support::document_file;
using support::input_error;
using support::learned;
using support::TemporaryFolder;
using testing::HasSubstr;

constexpr std::int64_t kM = kMasked;
const ExampleShape kShape{.input = "tokens",
                          .inputs = 6,
                          .classes = 100,
                          .takes_masks = true,
                          .isolates_documents = true};

config::DataSpec documents(const std::filesystem::path& files, bool packed = false,
                           double validation = 0) {
  return {.kind = "documents",
          .files = {files.string()},
          .validation_fraction = validation,
          .packed = packed};
}

/// The rows of one epoch, sorted.
std::vector<Row> epoch(const Dataset& dataset) {
  std::vector<Row> all = rows(dataset.train(0, dataset.train_examples()));
  std::sort(all.begin(), all.end());
  return all;
}

TEST(Documents, AreLearnedWhereTheyAreMarked) {
  const TemporaryFolder folder;
  io::write_file(folder / "a", document_file({{1, 2, learned(3), learned(4)},
                                              {5, learned(6), 7, learned(8), 9}}));
  io::write_file(folder / "b", document_file({{10, 11, 12, 13, 14, 15, learned(16)}}));
  const auto dataset = open_dataset(documents(folder / "*"), kShape, 1);

  EXPECT_THAT(epoch(*dataset),
              testing::ElementsAre(Row({1, 2, 3, 4, 0, 0}, {kM, 3, 4, kM, kM, kM}),
                                   Row({5, 6, 7, 8, 9, 0}, {6, kM, 8, kM, kM, kM}),
                                   Row({10, 11, 12, 13, 14, 15}, {kM, kM, kM, kM, kM, 16})));
  EXPECT_EQ(dataset->train_tokens(0, 3), 4 + 5 + 6) << "without padding";
  EXPECT_THAT(dataset->describe(),
              HasSubstr("documents, 2 files: 3 to train on, none for validation; rows 76 % full"));
}

TEST(Documents, AreCutToTheContextAndLeftOutWhereNothingOfThemIsLearned) {
  const TemporaryFolder folder;
  io::write_file(folder / "a",
                 document_file({{1, 2, 3, 4, 5, learned(6), learned(7), learned(8)},
                                {11, 12, 13, 14, 15, 16, 17, learned(18)},  // past the context
                                {21, 22},                                   // nothing marked
                                {learned(31)}}));  // a first token follows nothing
  const auto dataset = open_dataset(documents(folder / "a"), kShape, 1);

  EXPECT_THAT(epoch(*dataset),
              testing::ElementsAre(Row({1, 2, 3, 4, 5, 6}, {kM, kM, kM, kM, 6, 7})));
  EXPECT_THAT(dataset->describe(),
              HasSubstr("; 1 cut to 7 tokens; 3 left out, in which nothing is to be learned"));
}

TEST(Documents, StandWholeBehindEachOtherWherePacked) {
  const TemporaryFolder folder;
  io::write_file(folder / "a",
                 document_file({{1, learned(2), learned(3)},
                                {11, learned(12), learned(13), learned(14), learned(15)},
                                {learned(21), learned(22), learned(23), learned(24)},
                                {31, learned(32)}}));
  const auto dataset = open_dataset(documents(folder / "a", /*packed=*/true), kShape, 1);
  ASSERT_EQ(dataset->train_examples(), 2);

  // Neither row shows a document's first token as a target, marked or not.
  std::multiset<std::int64_t> targets, inputs;
  for (const Row& row : epoch(*dataset)) {
    for (std::size_t i = 0; i < 6; ++i) {
      if (row.second[i] == kM) continue;
      targets.insert(row.second[i]);
      EXPECT_EQ(row.second[i], row.first[i] + 1) << "the token after its own";
    }
    inputs.insert(row.first.begin(), row.first.end());
  }
  EXPECT_THAT(targets, testing::UnorderedElementsAre(2, 3, 12, 13, 14, 15, 22, 23, 24, 32));
  EXPECT_EQ(inputs.count(0), 0U) << "both rows are full";
  EXPECT_EQ(dataset->train_tokens(0, 2), 12);
  EXPECT_THAT(dataset->describe(), HasSubstr("4 in 2 rows to train on"));
  EXPECT_NE(dataset->digest(), open_dataset(documents(folder / "a"), kShape, 1)->digest());
}

/// The documents of every row of an epoch.
std::multiset<DocumentLengths> lengths_of_rows(const Dataset& dataset) {
  std::multiset<DocumentLengths> all;
  for (std::int64_t row = 0; row < dataset.train_examples(); ++row)
    all.insert(dataset.train_documents(row, 1));
  return all;
}

TEST(Documents, SayHowLongTheyAreWhereTheyAreIsolated) {
  const TemporaryFolder folder;
  io::write_file(folder / "a",
                 document_file({{1, learned(2), learned(3)},
                                {11, learned(12), learned(13), learned(14), learned(15)},
                                {learned(21), learned(22)},
                                {31, 32, 33, 34, 35, 36, learned(37), 38}}));
  const auto with = [&](bool packed, std::optional<bool> isolated) {
    config::DataSpec spec = documents(folder / "a", packed);
    spec.isolated = isolated;
    return open_dataset(spec, kShape, 1);
  };
  using testing::UnorderedElementsAre;
  // Of a row of seven tokens the last is only a target; what is left of a row of six is one more.
  const auto packed = with(true, {}), apart = with(false, true);
  EXPECT_THAT(lengths_of_rows(*packed),
              UnorderedElementsAre(DocumentLengths{6}, DocumentLengths{3, 3},
                                   testing::AnyOf(DocumentLengths{5, 1}, DocumentLengths{2, 4})));
  EXPECT_THAT(lengths_of_rows(*apart),
              UnorderedElementsAre(DocumentLengths{3, 3}, DocumentLengths{5, 1},
                                   DocumentLengths{2, 4}, DocumentLengths{6}));
  EXPECT_THAT(packed->describe(), HasSubstr("; isolated; rows"));

  // The lengths of a micro-batch are those of its rows, in their order.
  DocumentLengths of_rows;
  for (std::int64_t row = 0; row < 3; ++row)
    for (const std::int64_t tokens : packed->train_documents(row, 1)) of_rows.push_back(tokens);
  EXPECT_EQ(train_documents(*packed, {.batch = 3, .micro_batch = 3}, 0, 0), of_rows);

  const auto joined = with(true, false), plain = with(false, {});
  EXPECT_TRUE(joined->train_documents(0, 3).empty());
  EXPECT_TRUE(plain->train_documents(0, 4).empty());
  EXPECT_THAT(joined->describe(), testing::Not(HasSubstr("isolated")));
  EXPECT_THAT((std::set{packed->digest(), apart->digest(), joined->digest(), plain->digest()}),
              testing::SizeIs(4));
}

TEST(Documents, AreIsolatedInTheValidationPartToo) {
  const TemporaryFolder folder;
  std::vector<std::vector<std::uint32_t>> all;
  for (std::uint32_t i = 1; i <= 12; ++i) all.push_back({i, learned(i)});
  io::write_file(folder / "a", document_file(all));
  const auto dataset = open_dataset(documents(folder / "a", /*packed=*/true, 0.5), kShape, 1);
  ASSERT_EQ(dataset->validation_examples(), 2);
  EXPECT_EQ(validation_documents(*dataset, 2, 0, 1), (DocumentLengths{2, 2, 2, 2, 2, 2}));
}

/// Documents with as many learned tokens as their number, 1 to 6.
std::string of_rising_length() {
  std::vector<std::vector<std::uint32_t>> all;
  for (std::uint32_t count = 1; count <= 6; ++count) {
    all.push_back({count});
    for (std::uint32_t i = 0; i < count; ++i) all.back().push_back(learned(count));
  }
  return document_file(all);
}

std::int64_t counted(const at::Tensor& classes) {
  return classes.ne(kMasked).sum().item<std::int64_t>();
}

TEST(Documents, HaveTargetsThatWeighTheSameInAllMicroBatchesOfAStep) {
  const TemporaryFolder folder;
  io::write_file(folder / "a", of_rising_length());
  const auto dataset = open_dataset(documents(folder / "a"), kShape, 3);
  for (const std::int64_t micro_batch : {1, 2, 4}) {
    const BatchShape shape{.batch = 4, .micro_batch = micro_batch};
    for (std::int64_t step = 0; step < 5; ++step) {
      std::int64_t of_step = 0;
      for (std::int64_t m = 0; m < 4 / micro_batch; ++m)
        of_step += counted(train_target(*dataset, shape, step, m).at(0));
      for (std::int64_t m = 0; m < 4 / micro_batch; ++m) {
        const Target target = train_target(*dataset, shape, step, m);
        EXPECT_TRUE(at::equal(target.at(0), train_micro_batch(*dataset, shape, step, m).target));
        ASSERT_EQ(target.size(), 2U);
        EXPECT_FLOAT_EQ(target[1].item<float>(),
                        static_cast<float>(4 / micro_batch) / static_cast<float>(of_step));
      }
    }
  }
}

TEST(Documents, OfTheValidationPartAreNeverTrainedOnWhateverTheSeed) {
  const TemporaryFolder folder;
  std::vector<std::vector<std::uint32_t>> all;
  for (std::uint32_t i = 1; i <= 40; ++i) all.push_back({i, learned(i)});
  io::write_file(folder / "a", document_file(all));
  std::set<std::int64_t> first_validated;
  for (const bool packed : {false, true}) {
    for (const std::int64_t seed : {1, 2}) {
      const auto dataset = open_dataset(documents(folder / "a", packed, 0.25), kShape, seed);
      const std::int64_t examples = dataset->validation_examples();
      EXPECT_EQ(examples, packed ? 4 : 10);  // three documents of two tokens in rows of seven
      std::set<std::int64_t> trained, validated;
      for (const Row& row : epoch(*dataset)) trained.insert(row.first.begin(), row.first.end());
      const MicroBatch validation = validation_micro_batch(*dataset, examples, 0, 1);
      for (const Row& row : rows(validation)) validated.insert(row.first.begin(), row.first.end());
      validated.erase(0);
      EXPECT_EQ(validated.size(), 10U);
      for (const std::int64_t token : validated) EXPECT_EQ(trained.count(token), 0U);
      if (first_validated.empty()) first_validated = validated;
      EXPECT_EQ(validated, first_validated);
      EXPECT_FLOAT_EQ(validation_target(*dataset, examples, 0, 1).at(1).item<float>(), 0.1F);
    }
  }
}

TEST(Documents, ThatCannotBeReadAreRefusedWithTheReason) {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& content, ExampleShape shape = kShape) {
    io::write_file(folder / "a", content);
    return input_error([&] { open_dataset(documents(folder / "a"), shape, 1); });
  };
  const std::string whole = document_file({{1, learned(2)}, {3, learned(4), 5}});
  EXPECT_THAT(refusal("some text"),
              HasSubstr((folder / "a").string() + ": is no file of documents, must begin with"));
  EXPECT_THAT(refusal(whole.substr(0, whole.size() - 4)),
              HasSubstr("has 96 bytes, which is not what 2 documents of 5 tokens take"));
  EXPECT_THAT(refusal(document_file({2, 2, 5}, {1, 2, 3, 4, 5})),
              HasSubstr("document 1 ends at token 2, must end after the one before it, at 2"));
  EXPECT_THAT(refusal(document_file({2, 4}, {1, 2, 3, 4, 5})),
              HasSubstr("its documents end at token 4, must end with its 5 tokens"));
  EXPECT_THAT(
      refusal(document_file({{1, 2}, {3, learned(100)}})),
      HasSubstr("a token of document 1 is 100, must be below the model's vocabulary = 100"));
  EXPECT_THAT(refusal(document_file({{1, 2}, {3, 4}})),
              HasSubstr("none of 2 documents has a token to be learned among its first 7"));
  io::write_file(folder / "a", whole);
  EXPECT_THAT(input_error([&] { open_dataset(documents(folder / "a", false, 0.4), kShape, 1); }),
              HasSubstr("(data.validation_fraction = 0.4, 0 for none) has none of 2 documents"));
  ExampleShape without_masks = kShape;
  without_masks.takes_masks = false;
  EXPECT_THAT(refusal(whole, without_masks), HasSubstr("does not support masked targets"));
  ExampleShape joins = kShape;
  joins.isolates_documents = false;
  EXPECT_THAT(
      input_error([&] { open_dataset(documents(folder / "a", /*packed=*/true), joins, 1); }),
      HasSubstr("data.isolated is auto, which is true for packed documents, but the layers of this "
                "model do not keep documents of a row apart"));
  std::string huge = whole;
  huge.replace(16, 16, std::string(16, '\xff'));
  EXPECT_THAT(refusal(huge), HasSubstr("is it truncated?"));
}

}  // namespace
}  // namespace trireme::data
