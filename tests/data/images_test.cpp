// Image folders, in PNM so that no library is needed.
// SPDX-License-Identifier: Apache-2.0
#include "pictures.h"
#include "rows.h"
#include "support/input_error.h"
#include "support/temporary_folder.h"

#include "trireme/core/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace trireme::data {
namespace {

using support::input_error;
using support::TemporaryFolder;
using testing::ElementsAre;
using testing::HasSubstr;

/// Values 0..255 of the image `text`, each less the mean of its channel.
std::vector<double> pixels_of(const std::string& text, const ExampleShape& shape) {
  const TemporaryFolder folder;
  io::write_file(folder / "class" / "image", text);
  const MicroBatch batch = open_dataset(images(folder / "*" / "*"), shape, 1)->train(0, 1);
  std::vector<double> values;
  const at::Tensor flat = batch.input.to(at::kDouble).flatten();
  for (std::int64_t i = 0; i < flat.numel(); ++i) values.push_back(flat[i].item<double>() * 255);
  return values;
}

TEST(Pnm, IsReadRowByRow) {
  EXPECT_THAT(pixels_of("P5 3 2 255\n" + std::string("\x00\x0a\x14\x1e\x28\x32", 6),
                        image_shape(1, 2, 3, 2)),
              ElementsAre(testing::DoubleNear(-25, 1e-4), testing::DoubleNear(-15, 1e-4),
                          testing::DoubleNear(-5, 1e-4), testing::DoubleNear(5, 1e-4),
                          testing::DoubleNear(15, 1e-4), testing::DoubleNear(25, 1e-4)));
}

TEST(Pnm, HasChannelsBesideEachOther) {
  EXPECT_THAT(pixels_of("P6 2 1 255\n" + std::string("\x00\x64\x0a\x02\x66\x14", 6),
                        image_shape(3, 1, 2, 2)),
              ElementsAre(testing::DoubleNear(-1, 1e-4), testing::DoubleNear(1, 1e-4),
                          testing::DoubleNear(-1, 1e-4), testing::DoubleNear(1, 1e-4),
                          testing::DoubleNear(-5, 1e-4), testing::DoubleNear(5, 1e-4)));
}

TEST(Pnm, ScalesOtherRanges) {
  // 0 and 15 of 15; 0 and 1000 of 1000 in two bytes: 0 and 255.
  for (const std::string& text :
       {std::string("P5 2 1 15\n\x00\x0f", 12),
        std::string("P5 #width\n2 #height\n1\n1000\n\x00\x00\x03\xe8", 31)})
    EXPECT_THAT(pixels_of(text, image_shape(1, 1, 2, 2)),
                ElementsAre(testing::DoubleNear(-127.5, 1e-4), testing::DoubleNear(127.5, 1e-4)));
}

std::string refusal(const std::string& content) {
  const TemporaryFolder folder;
  io::write_file(folder / "class" / "a", content);
  return input_error([&] { open_dataset(images(folder / "*" / "*"), image_shape(1, 2, 2, 2), 1); });
}

TEST(Pnm, SaysWhatIsWrong) {
  EXPECT_THAT(refusal("P5 2 2 255\nabc"),
              HasSubstr("a: is truncated: 3 bytes of pixels, must be 4"));
  EXPECT_THAT(refusal("P5 2 2 1000\nabcd"), HasSubstr("4 bytes of pixels, must be 8"));
  EXPECT_THAT(refusal("P5 2"), HasSubstr("the header's height is not a number from 1 to 65536"));
  EXPECT_THAT(refusal("P5 0 2 255\nabcd"), HasSubstr("the header's width is not a number"));
  EXPECT_THAT(refusal("P6 99999999999999999999 2 255\nabcd"), HasSubstr("header's width"));
  EXPECT_THAT(refusal("P5 65536 65536 255\nabcd"), HasSubstr("says that it is 65536 x 65536"));
  EXPECT_THAT(refusal("P5 2 2 0\nabcd"), HasSubstr("the header's largest value"));
  EXPECT_THAT(refusal("P5 2 2 255"), HasSubstr("is truncated: 0 bytes"));
  EXPECT_THAT(refusal("P3 2 2 255\n1 2 3 4"), HasSubstr("is no image that can be read"));
  EXPECT_THAT(refusal("just text"), HasSubstr("is no image that can be read"));
  EXPECT_THAT(refusal(""), HasSubstr("the file is empty"));
}

TEST(Images, AreNotReadForTheirTargets) {
  const TemporaryFolder folder;
  for (int i = 0; i < 8; ++i) {
    write_gray(folder / "cats" / concat(i, ".pgm"), 10);
    write_gray(folder / "dogs" / concat(i, ".pgm"), 30);
  }
  config::DataSpec spec = images(folder / "*" / "*.pgm");
  spec.validation_fraction = 0.25;
  const auto dataset = open_dataset(spec, image_shape(1, 4, 4, 2), 1);
  const at::Tensor trained = train_micro_batch(*dataset, {6, 3}, 1, 1).target;
  const at::Tensor validated = validation_micro_batch(*dataset, 2, 1, 2).target;
  for (const char* const name : {"cats", "dogs"})
    for (int i = 0; i < 8; ++i) std::filesystem::remove(folder / name / concat(i, ".pgm"));

  EXPECT_TRUE(at::equal(train_target(*dataset, {6, 3}, 1, 1).at(0), trained));
  EXPECT_TRUE(at::equal(validation_target(*dataset, 2, 1, 2).at(0), validated));
  EXPECT_THAT(input_error([&] { dataset->train(0, 1); }), HasSubstr(".pgm"));
}

TEST(Images, AreOfTheClassThatTheirFolderNames) {
  const TemporaryFolder folder;
  for (int i = 0; i < 3; ++i) {
    write_gray(folder / "cats" / concat("b", i, ".pgm"), 10);
    write_gray(folder / "ants" / concat("c", i, ".pgm"), 20);
    write_gray(folder / "dogs" / concat("a", i, ".pgm"), 30);
  }
  const auto dataset = open_dataset(images(folder / "*" / "*.pgm"), image_shape(1, 4, 4, 3), 1);
  const MicroBatch all = dataset->train(0, 9);

  std::multiset<std::int64_t> labels;
  for (std::int64_t i = 0; i < 9; ++i) {
    // Mean 20; ants, cats, dogs in this order.
    const double level = all.input[i][0][0][0].item<double>() * 255 + 20;
    const double expected[] = {20, 10, 30};
    const auto label = all.target[i].item<std::int64_t>();
    labels.insert(label);
    EXPECT_NEAR(level, expected[label], 1e-4);
  }
  EXPECT_THAT(labels, ElementsAre(0, 0, 0, 1, 1, 1, 2, 2, 2));
  EXPECT_EQ(dataset->describe(),
            "images, 9 files in 3 folders: 9 images to train on, none for validation");
}

TEST(Images, AreValidatedWithAFixedChoiceOfAllClasses) {
  const TemporaryFolder folder;
  for (int i = 0; i < 100; ++i)
    write_gray(folder / (i < 50 ? "a" : "b") / concat(i, ".pgm"), 2 * i, 1, 1);
  const ExampleShape shape = image_shape(1, 1, 1, 2);
  const auto first = open_dataset(images(folder / "*" / "*", 0.3), shape, 1);
  const auto second = open_dataset(images(folder / "*" / "*", 0.3), shape, 2);
  ASSERT_EQ(first->train_examples(), 70);
  ASSERT_EQ(first->validation_examples(), 30);

  const MicroBatch validation = first->validation(0, 30, 30);
  EXPECT_TRUE(at::equal(validation.input, second->validation(0, 30, 30).input));
  const auto of_b = validation.target.sum().item<std::int64_t>();
  EXPECT_GT(of_b, 5);
  EXPECT_LT(of_b, 25);
  std::set<float> seen;
  for (const MicroBatch& part : {validation, first->train(0, 70)}) {
    for (std::int64_t i = 0; i < part.input.size(0); ++i) seen.insert(part.input[i].item<float>());
  }
  EXPECT_EQ(seen.size(), 100U);  // an epoch holds every image once and none of the validation
  EXPECT_FALSE(at::equal(first->train(0, 70).input, second->train(0, 70).input));
}

TEST(Images, AreTheSameHoweverTheyAreLoaded) {
  const TemporaryFolder folder;
  for (int i = 0; i < 10; ++i) write_gray(folder / "a" / concat(i, ".pgm"), 20 * i, 2, 2);
  const auto open = [&] {
    return open_dataset(images(folder / "a" / "*"), image_shape(1, 2, 2, 2), 1);
  };
  const MicroBatch whole = open()->train(7, 6);

  for (std::int64_t i = 0; i < 6; ++i)
    EXPECT_TRUE(at::equal(open()->train(7 + i, 1).input[0], whole.input[i]));
  const std::string before = open()->digest();
  EXPECT_EQ(open()->digest(), before);
  write_gray(folder / "a" / "3.pgm", 61, 2, 2);
  EXPECT_NE(open()->digest(), before);
}

TEST(Images, AreAveragedWhenTheyShrink) {
  const TemporaryFolder folder;
  // Columns 0, 0, 200, 200 become two: middles at 1 and 3, a triangle of two pixels to each side.
  io::write_file(folder / "a" / "x",
                 std::string("P5 4 2 255\n\x00\x00\xc8\xc8\x00\x00\xc8\xc8", 19));
  const MicroBatch batch =
      open_dataset(images(folder / "a" / "x"), image_shape(1, 1, 2, 2), 1)->train(0, 1);

  // Left: weights 3/4, 3/4, 1/4 of 0, 0, 200 over 7/4: 200/7 = 28.57, rounded to 29; right the
  // rest.
  const double difference =
      (batch.input[0][0][0][1] - batch.input[0][0][0][0]).item<double>() * 255;
  EXPECT_NEAR(difference, 171 - 29, 1e-3);
}

TEST(Images, AreInterpolatedWhenTheyGrow) {
  const TemporaryFolder folder;
  io::write_file(folder / "a" / "x", std::string("P5 2 2 255\n\x00\x64\x00\x64", 15));
  const MicroBatch batch =
      open_dataset(images(folder / "a" / "x"), image_shape(1, 4, 4, 2), 1)->train(0, 1);

  // Middles at 1/4, 3/4, 5/4, 7/4 of pixels whose middles are 1/2 and 3/2.
  const at::Tensor row = batch.input[0][0][2] * 255;
  EXPECT_NEAR((row[1] - row[0]).item<double>(), 25, 1e-3);
  EXPECT_NEAR((row[2] - row[0]).item<double>(), 75, 1e-3);
  EXPECT_NEAR((row[3] - row[0]).item<double>(), 100, 1e-3);
}

TEST(Images, AreCroppedAtTheCentre) {
  const TemporaryFolder folder;
  // A wide image: black borders, and in the middle 2 x 2 pixels that are white on the right.
  std::string text("P5 6 2 255\n");
  for (int row = 0; row < 2; ++row) text += std::string("\x00\x00\x00\xff\x00\x00", 6);
  io::write_file(folder / "a" / "wide", text);
  const MicroBatch batch =
      open_dataset(images(folder / "a" / "wide"), image_shape(1, 2, 2, 2), 1)->train(0, 1);

  for (std::int64_t y = 0; y < 2; ++y)
    EXPECT_NEAR((batch.input[0][0][y][1] - batch.input[0][0][y][0]).item<double>(), 1, 1e-5);
}

TEST(Images, ChangeBetweenGrayAndColour) {
  const TemporaryFolder folder;
  io::write_file(folder / "a" / "colour", std::string("P6 2 1 255\n\x00\x00\x00\xc8\x64\x32", 17));
  io::write_file(folder / "b" / "gray", std::string("P5 2 1 255\n\x00\x64", 13));
  const MicroBatch gray =
      open_dataset(images(folder / "a" / "*"), image_shape(1, 1, 2, 1), 1)->train(0, 1);
  const MicroBatch colour =
      open_dataset(images(folder / "b" / "*"), image_shape(3, 1, 2, 1), 1)->train(0, 1);

  // 0.299 x 200 + 0.587 x 100 + 0.114 x 50 = 124.2
  EXPECT_NEAR((gray.input[0][0][0][1] - gray.input[0][0][0][0]).item<double>() * 255, 124, 1e-3);
  for (std::int64_t c = 0; c < 3; ++c)
    EXPECT_NEAR((colour.input[0][c][0][1] - colour.input[0][c][0][0]).item<double>() * 255, 100,
                1e-3);
}

TEST(Images, NeedAClassOfTheModelForEveryFolder) {
  const TemporaryFolder folder;
  for (const char* name : {"a", "b", "c"}) write_gray(folder / name / "x.pgm", 1);

  EXPECT_THAT(
      input_error([&] { open_dataset(images(folder / "*" / "*"), image_shape(1, 2, 2, 2), 1); }),
      HasSubstr("images in 3 folders, each of which is a class, but model.classes is 2"));
  EXPECT_THAT(
      input_error([&] { open_dataset(images(folder / "*" / "*"), image_shape(2, 2, 2, 3), 1); }),
      HasSubstr("model.channels is 2"));
}

TEST(Images, NameAFileThatBreaksLater) {
  const TemporaryFolder folder;
  for (int i = 0; i < 4; ++i) write_gray(folder / "a" / concat(i), i);
  const auto dataset = open_dataset(images(folder / "a" / "*"), image_shape(1, 2, 2, 1), 1);
  std::filesystem::remove(folder / "a" / "2");

  EXPECT_THAT(input_error([&] { dataset->train(0, 4); }),
              HasSubstr((folder / "a" / "2").string() + ": cannot be read"));
}

}  // namespace
}  // namespace trireme::data
