// A packed file gives the same pixels and classes as the image files themselves.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/data/pack_images.h"

#include "encoded.h"
#include "pictures.h"
#include "support/input_error.h"
#include "support/little_endian.h"
#include "support/temporary_folder.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace trireme::data {
namespace {

namespace fs = std::filesystem;

using support::input_error;
using support::little_endian;
using support::TemporaryFolder;
using testing::HasSubstr;

bool goes_on() {
  return false;
}

PackedCounts pack(const fs::path& pattern, std::int64_t channels, std::int64_t side,
                  const fs::path& output) {
  return pack_images({pattern.string()}, channels, side, output, goes_on);
}

/// Contents of a packed file with these pixels and classes.
std::string packed(std::int64_t channels, std::int64_t side, const std::string& pixels,
                   const std::vector<std::uint64_t>& classes) {
  std::string text = "trireme-images/1" + little_endian(classes.size(), 8);
  for (const std::int64_t size : {channels, side, side})
    text += little_endian(static_cast<std::uint64_t>(size), 8);
  text += std::string(16, '\0') + pixels;
  for (const std::uint64_t each : classes) text += little_endian(each, 4);
  return text;
}

std::string noise(std::size_t bytes, unsigned seed) {
  std::mt19937 random(seed);
  std::string values;
  while (values.size() < bytes) values.push_back(static_cast<char>(random() % 256));
  return values;
}

/// Images in all formats, of that size.
std::vector<std::string> kinds(int width, int height) {
  const auto values = [&](int channels) {
    return noise(static_cast<std::size_t>(width * height * channels),
                 static_cast<unsigned>(width * 100 + height + channels));
  };
  std::string indices = values(1);
  for (char& index : indices) index = static_cast<char>(index & 7);
  const std::string size = concat(width, ' ', height);
  return {encoded_png(values(1), width, height, PNG_FORMAT_GRAY),
          encoded_png(values(2), width, height, PNG_FORMAT_GA),
          encoded_png(values(3), width, height, PNG_FORMAT_RGB),
          encoded_png(values(4), width, height, PNG_FORMAT_RGBA),
          encoded_png(indices, width, height, PNG_FORMAT_RGB_COLORMAP, noise(8 * 3, 1)),
          encoded_png(values(6), width, height, PNG_FORMAT_LINEAR_RGB),
          encoded_jpeg(values(1), width, height, 1),
          encoded_jpeg(values(3), width, height, 3),
          encoded_jpeg(values(4), width, height, 4),
          concat("P5 ", size, " 255\n", values(1)),
          concat("P6 ", size, " 255\n", values(3)),
          concat("P6 ", size, " 1000\n", std::string(values(6).size(), '\1'))};
}

TEST(PackImages, GivesThePixelsAndClassesOfTheFiles) {
  const TemporaryFolder folder;
  int classes = 0;
  for (const auto& [width, height] : {std::pair(6, 6), {13, 7}, {7, 13}, {3, 5}, {1, 1}, {64, 2}})
    for (const std::string& image : kinds(width, height)) {
      io::write_file(folder / "all" / concat("class ", classes % 10) / concat(classes), image);
      ++classes;
    }
  for (const std::int64_t channels : {1, 3})
    for (const std::int64_t side : {6, 5, 32}) {
      const PackedCounts counts =
          pack(folder / "all" / "*" / "*", channels, side, folder / "packed");
      EXPECT_EQ(counts.images, classes);
      EXPECT_EQ(counts.classes, 10);
      const ExampleShape shape = image_shape(channels, side, side, 10);
      const auto files = open_dataset(images(folder / "all" / "*" / "*", 0.25), shape, 3);
      const auto one = open_dataset(images(folder / "packed", 0.25), shape, 3);
      ASSERT_EQ(one->train_examples(), files->train_examples());
      const MicroBatch expected = files->train(0, files->train_examples());
      const MicroBatch found = one->train(0, one->train_examples());
      EXPECT_TRUE(at::equal(found.input, expected.input)) << channels << ' ' << side;
      EXPECT_TRUE(at::equal(found.target, expected.target)) << channels << ' ' << side;
      const std::int64_t rest = files->validation_examples();
      EXPECT_TRUE(
          at::equal(one->validation(0, rest, rest).input, files->validation(0, rest, rest).input));
    }
}

TEST(PackImages, WritesWhatThePageSays) {
  const TemporaryFolder folder;
  // Classes are ordered by folder name, whatever the order of files; folders without a file are not
  // classes.
  io::write_file(folder / "b" / "1", "P5 2 2 255\nabcd");
  io::write_file(folder / "b" / "2", "P5 2 2 255\nefgh");
  io::write_file(folder / "Z" / "9", "P5 2 2 255\nijkl");
  io::write_file(folder / "a.b" / "0", "P5 2 2 255\nmnop");
  fs::create_directory(folder / "A");
  const PackedCounts counts = pack(folder / "*" / "[0-9]", 1, 2, folder / "out");
  EXPECT_EQ(counts.images, 4);
  EXPECT_EQ(counts.classes, 3);
  EXPECT_EQ(io::read_file(folder / "out"), packed(1, 2, "ijklmnopabcdefgh", {0, 1, 2, 2}));
}

// Pixels [channels, height, width] of two half-clear pixels: v * a + 255 * (1 - a).
TEST(PackImages, ComposesOnWhiteAndMakesColoursOfPalettes) {
  const TemporaryFolder folder;
  const auto pixels_of = [&](const std::string& image, std::int64_t channels) {
    io::write_file(folder / "c" / "image", image);
    pack(folder / "c" / "*", channels, 1, folder / "out");
    return io::read_file(folder / "out").substr(64, static_cast<std::size_t>(channels));
  };
  using namespace std::string_literals;
  EXPECT_EQ(pixels_of(encoded_png("\x0a\x14\x1e\xff", 1, 1, PNG_FORMAT_RGBA), 3), "\x0a\x14\x1e");
  EXPECT_EQ(pixels_of(encoded_png("\x0a\x14\x1e\0"s, 1, 1, PNG_FORMAT_RGBA), 3), "\xff\xff\xff");
  EXPECT_EQ(pixels_of(encoded_png("\x0a\0"s, 1, 1, PNG_FORMAT_GA), 1), "\xff");
  EXPECT_EQ(pixels_of(encoded_png("\1", 1, 1, PNG_FORMAT_RGB_COLORMAP, "abcdef"), 3), "def");
  EXPECT_EQ(pixels_of(encoded_png("q", 1, 1, PNG_FORMAT_GRAY), 3), "qqq");
}

TEST(PackImages, LeavesWhatWasThereWhereAFileIsBroken) {
  const TemporaryFolder folder;
  io::write_file(folder / "in" / "a" / "1", "P5 1 1 255\nx");
  io::write_file(folder / "in" / "b" / "2", "P5 1 1 255\ny");
  const std::string whole = encoded_png(noise(300, 1), 10, 10, PNG_FORMAT_RGB);
  pack(folder / "in" / "*" / "*", 1, 1, folder / "out");
  const std::string before = io::read_file(folder / "out");
  const auto files_here = [&] {
    return std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator());
  };
  for (const std::string& broken :
       {std::string(), std::string("no image"), whole.substr(0, whole.size() / 2),
        std::string("P6 9 9 255\nabc"), before}) {
    io::write_file(folder / "in" / "b" / "3", broken);
    EXPECT_THAT(input_error([&] { pack(folder / "in" / "*" / "*", 1, 1, folder / "out"); }),
                HasSubstr("in/b/3"));
    EXPECT_EQ(io::read_file(folder / "out"), before);
    EXPECT_EQ(files_here(), 2) << "a draft is left";
  }
  fs::remove(folder / "in" / "b" / "3");
  EXPECT_THROW(pack_images({(folder / "in" / "*" / "*").string()}, 1, 1, folder / "out",
                           [] { return true; }),
               Error);
  EXPECT_EQ(io::read_file(folder / "out"), before);
  EXPECT_EQ(files_here(), 2);
  EXPECT_THROW(pack(folder / "in" / "*" / "*", 1, 1, folder / "none" / "out"), Error);
  EXPECT_THAT(input_error([&] { pack(folder / "no" / "*", 1, 1, folder / "out"); }),
              HasSubstr("no/*"));
}

}  // namespace
}  // namespace trireme::data
