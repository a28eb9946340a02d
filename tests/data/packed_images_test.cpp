// SPDX-License-Identifier: Apache-2.0
#include "pictures.h"
#include "rows.h"
#include "support/input_error.h"
#include "support/little_endian.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace trireme::data {
namespace {

using support::input_error;
using support::little_endian;
using support::TemporaryFolder;
using testing::HasSubstr;

std::string header(std::uint64_t images, std::uint64_t channels, std::uint64_t height,
                   std::uint64_t width) {
  std::string text = "trireme-images/1";
  for (const std::uint64_t size : {images, channels, height, width}) text += little_endian(size, 8);
  return text + std::string(16, '\0');
}

/// Images of one value each, `first`, first + 1, ..., whose class is that value modulo 3.
std::string packed(int first, int images, int channels = 1, int side = 2) {
  std::string pixels, classes;
  for (int value = first; value < first + images; ++value) {
    pixels +=
        std::string(static_cast<std::size_t>(channels * side * side), static_cast<char>(value));
    classes += little_endian(static_cast<std::uint64_t>(value % 3), 4);
  }
  const auto size = [](int number) { return static_cast<std::uint64_t>(number); };
  return header(size(images), size(channels), size(side), size(side)) + pixels + classes;
}

const ExampleShape kShape = image_shape(1, 2, 2, 3);

TEST(PackedImages, AreReadWithTheirClasses) {
  const TemporaryFolder folder;
  io::write_file(folder / "a.packed", packed(0, 4));
  io::write_file(folder / "b.packed", packed(4, 6));
  const auto dataset = open_dataset(images(folder / "*.packed"), kShape, 1);
  ASSERT_EQ(dataset->train_examples(), 10);

  const MicroBatch all = dataset->train(0, 10);
  std::map<int, std::int64_t> class_of;
  for (std::int64_t i = 0; i < 10; ++i) {
    const double value = all.input[i][0][1][1].item<double>() * 255 + 4.5;  // the mean of 0..9
    class_of[static_cast<int>(std::lround(value))] = all.target[i].item<std::int64_t>();
  }
  ASSERT_EQ(class_of.size(), 10U);
  for (const auto& [value, label] : class_of) EXPECT_EQ(label, value % 3);
  EXPECT_EQ(dataset->describe(),
            "packed images, 2 files: 10 images to train on, none for validation");
}

TEST(PackedImages, AreFittedToTheModel) {
  const TemporaryFolder folder;
  io::write_file(folder / "a", packed(7, 3, 2, 5));
  const auto dataset = open_dataset(images(folder / "a"), image_shape(2, 3, 3, 3), 1);

  const MicroBatch all = dataset->train(0, 3);
  EXPECT_EQ(all.input.sizes(), (at::IntArrayRef{3, 2, 3, 3}));
  for (std::int64_t i = 0; i < 3; ++i)
    EXPECT_NEAR(all.input[i].max().item<double>(), all.input[i].min().item<double>(), 1e-6);
}

TEST(PackedImages, SayWhatIsWrong) {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& content, const ExampleShape& shape = kShape) {
    io::write_file(folder / "a", content);
    return input_error([&] { open_dataset(images(folder / "a"), shape, 1); });
  };
  const std::string whole = packed(0, 4);

  EXPECT_EQ(refusal(whole), "no InputError was thrown");
  EXPECT_THAT(refusal(whole.substr(0, whole.size() - 1)), HasSubstr("has 95 bytes, must have 96"));
  EXPECT_THAT(refusal(whole + "x"), HasSubstr("has 97 bytes, must have 96"));
  EXPECT_THAT(refusal(whole.substr(0, 30)), HasSubstr("have a header of 64 bytes"));
  EXPECT_THAT(refusal(header(0, 1, 2, 2)), HasSubstr("0 images of 1 x 2 x 2"));
  EXPECT_THAT(refusal(header(1, 1, 1 << 20, 2)), HasSubstr("which cannot be"));
  EXPECT_THAT(refusal(header(std::uint64_t{1} << 36, 4096, 65536, 65536)), HasSubstr("truncated"));
  EXPECT_THAT(refusal(whole, image_shape(3, 2, 2, 3)), HasSubstr("model.channels is 3"));
  EXPECT_THAT(refusal(whole, image_shape(1, 2, 2, 2)),
              HasSubstr("image 2 is of class 2, must be below model.classes = 2"));
}

TEST(PackedImages, AreNotMixedWithImageFiles) {
  const TemporaryFolder folder;
  io::write_file(folder / "a", packed(0, 4));
  write_gray(folder / "b", 1);

  EXPECT_THAT(input_error([&] { open_dataset(images(folder / "*"), kShape, 1); }),
              HasSubstr("cannot be mixed"));
}

TEST(PackedImages, ChangeTheirDigestWithTheirContent) {
  const TemporaryFolder folder;
  const auto digest_of = [&](const std::string& content) {
    io::write_file(folder / "a", content);
    return open_dataset(images(folder / "a"), kShape, 1)->digest();
  };

  EXPECT_EQ(digest_of(packed(0, 4)), digest_of(packed(0, 4)));
  EXPECT_NE(digest_of(packed(0, 4)), digest_of(packed(1, 4)));
}

}  // namespace
}  // namespace trireme::data
