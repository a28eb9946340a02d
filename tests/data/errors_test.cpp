// SPDX-License-Identifier: Apache-2.0
#include "support/input_error.h"
#include "support/temporary_folder.h"

#include "trireme/data/dataset.h"
#include "trireme/io/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::data {
namespace {

using support::input_error;
using support::TemporaryFolder;
using testing::HasSubstr;

const ExampleShape kTokens{.input = "tokens", .inputs = 8, .classes = 256};

std::string refusal(const config::DataSpec& spec, const ExampleShape& shape = kTokens) {
  return input_error([&] { open_dataset(spec, shape, 1); });
}

TEST(OpenDataset, NamesAPatternThatMatchesNothing) {
  const TemporaryFolder folder;
  const std::string pattern = (folder / "*.txt").string();

  EXPECT_THAT(refusal({.files = {pattern}}), HasSubstr("no file matches '" + pattern + "'"));
}

TEST(OpenDataset, NamesAFileThatIsMissingOrAFolder) {
  const TemporaryFolder folder;
  const std::string missing = (folder / "missing.txt").string();

  EXPECT_THAT(refusal({.files = {missing}}),
              HasSubstr(missing + ": cannot be read: No such file or directory"));
  EXPECT_THAT(refusal({.files = {folder.path().string()}}),
              HasSubstr(folder.path().string() + ": is a folder"));
  EXPECT_THAT(refusal({.files = {}}), HasSubstr("data.files is empty"));
}

TEST(OpenDataset, NamesAnEmptyFileAmongOthers) {
  const TemporaryFolder folder;
  io::write_file(folder / "a.txt", "something to read\n");
  io::write_file(folder / "b.txt", "");

  EXPECT_THAT(refusal({.files = {(folder / "*.txt").string()}}),
              HasSubstr((folder / "b.txt").string() + ": the file is empty"));
}

TEST(OpenDataset, SaysWhichPartIsShorterThanAWindow) {
  const TemporaryFolder folder;
  io::write_file(folder / "a", "0123456\n");
  io::write_file(folder / "b", std::string(15, 'b') + "\n");
  io::write_file(folder / "c", std::string(17, 'c') + "\n");
  const auto open_half = [&](const std::string& name, double fraction) {
    return refusal({.files = {(folder / name).string()}, .validation_fraction = fraction});
  };

  EXPECT_THAT(open_half("a", 0), HasSubstr("train part has 8 tokens, must have at least 9"));
  EXPECT_THAT(open_half("b", 0.25), HasSubstr("validation part (data.validation_fraction = 0.25"));
  EXPECT_THAT(open_half("b", 0.25), HasSubstr("has 4 tokens, must have at least 9"));
  EXPECT_EQ(open_half("c", 0.5), "no InputError was thrown");  // 9 and 9: a window each
}

TEST(OpenDataset, WantsAVocabularyOfAllBytes) {
  ExampleShape shape = kTokens;
  shape.classes = 255;

  EXPECT_THAT(refusal({.files = {"/dev/null"}}, shape),
              HasSubstr("vocabulary is 255, must be at least 256"));
}

TEST(OpenDataset, RefusesWhatTheChainCannotTake) {
  const ExampleShape vectors{.input = "vectors", .inputs = 8, .classes = 10};

  EXPECT_THAT(refusal({.kind = "text"}, vectors), HasSubstr("the model takes vectors"));
  EXPECT_THAT(refusal({.kind = "tokens"}, vectors), HasSubstr("the model takes vectors"));
  EXPECT_THAT(refusal({.kind = "images"}), HasSubstr("gives images, but the model takes tokens"));
  EXPECT_THAT(refusal({.kind = "sounds"}), HasSubstr("data.kind is 'sounds'"));
  EXPECT_THAT(refusal({}, {.input = "graphs", .inputs = 1, .classes = 1}), HasSubstr("'graphs'"));
}

TEST(OpenDataset, WantsATokenWidthThatExists) {
  const TemporaryFolder folder;
  io::write_file(folder / "a", "0123456789");

  EXPECT_THAT(refusal({.kind = "tokens", .files = {(folder / "a").string()}, .token_bytes = 3}),
              HasSubstr("data.token_bytes is 3, must be 2 or 4"));
}

TEST(OpenDataset, WantsAnExampleToTrainOn) {
  EXPECT_THAT(refusal({.kind = "synthetic", .examples = 0}), HasSubstr("data.examples is 0"));
}

}  // namespace
}  // namespace trireme::data
