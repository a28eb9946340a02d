// PNG and JPEG decoding, of files written by libpng and libjpeg.
// SPDX-License-Identifier: Apache-2.0
#include "encoded.h"
#include "pictures.h"
#include "support/input_error.h"
#include "support/temporary_folder.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::data {
namespace {

using support::input_error;
using support::TemporaryFolder;
using testing::HasSubstr;

constexpr int kSide = 16;

/// A smooth image: channel c at (x, y) is 10 c + 8 x + 4 y.
std::string gradient(int channels) {
  std::string pixels;
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) {
      for (int c = 0; c < channels; ++c)
        pixels.push_back(static_cast<char>(10 * c + 8 * x + 4 * y));
    }
  }
  return pixels;
}

std::string png_of(const std::string& pixels, png_uint_32 format) {
  return encoded_png(pixels, kSide, kSide, format);
}

std::string jpeg_of(const std::string& pixels, int channels) {
  return encoded_jpeg(pixels, kSide, kSide, channels);
}

/// The largest difference between the file's image and the gradient, up to each channel's mean.
double distance_to_gradient(const std::string& file, int channels) {
  const TemporaryFolder folder;
  io::write_file(folder / "a" / "image", file);
  const at::Tensor image =
      open_dataset(images(folder / "a" / "*"), image_shape(channels, kSide, kSide, 1), 1)
          ->train(0, 1)
          .input[0];
  const at::Tensor place = at::arange(kSide) - (kSide - 1) / 2.0;
  const at::Tensor expected = 8 * place + 4 * place.unsqueeze(1);
  return (image * 255 - expected).abs().max().item<double>();
}

TEST(Png, IsReadExactly) {
  EXPECT_LT(distance_to_gradient(png_of(gradient(3), PNG_FORMAT_RGB), 3), 1e-3);
  EXPECT_LT(distance_to_gradient(png_of(gradient(1), PNG_FORMAT_GRAY), 1), 1e-3);
  EXPECT_LT(distance_to_gradient(png_of(gradient(1), PNG_FORMAT_GRAY), 3), 1e-3);
}

/// PNG with 16 bits per value, v / 255 of the maximum for a gradient value v, without colour space
/// information.
std::string png_of_16_bits() {
  const auto append = [](png_structp png, png_bytep bytes, size_t count) {
    static_cast<std::string*>(png_get_io_ptr(png))
        ->append(reinterpret_cast<const char*>(bytes), count);
  };
  std::string file;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(png, &file, append, [](png_structp) {});
  png_set_IHDR(png, info, kSide, kSide, 16, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  const std::string pixels = gradient(3);
  for (std::size_t y = 0; y < kSide; ++y) {
    std::string row;
    for (const char value : pixels.substr(y * kSide * 3, kSide * 3)) row.append(2, value);
    png_write_row(png, reinterpret_cast<png_const_bytep>(row.data()));
  }
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return file;
}

TEST(Png, Of16BitsIsReadAsTheSameWith8Bits) {
  EXPECT_LT(distance_to_gradient(png_of_16_bits(), 3), 1e-3);
}

// (255 - ink) (255 - black) / 255; libjpeg writes Adobe's marker, by which 255 is no ink.
TEST(Jpeg, OfInksIsReadAsColours) {
  std::string inks;
  const std::string colours = gradient(3);
  for (std::size_t pixel = 0; pixel < colours.size(); pixel += 3)
    inks += colours.substr(pixel, 3) + '\xff';
  EXPECT_LT(distance_to_gradient(jpeg_of(inks, 4), 3), 4);
}

TEST(Png, IsComposedOnWhite) {
  std::string pixels;
  for (int i = 0; i < kSide * kSide; ++i)  // black: half opaque, half transparent
    pixels += std::string("\0\0\0", 3) + (i % kSide < kSide / 2 ? '\xff' : '\0');
  const TemporaryFolder folder;
  io::write_file(folder / "a" / "image", png_of(pixels, PNG_FORMAT_RGBA));
  const at::Tensor row =
      open_dataset(images(folder / "a" / "*"), image_shape(3, kSide, kSide, 1), 1)
          ->train(0, 1)
          .input[0][0][0];

  EXPECT_NEAR((row[kSide - 1] - row[0]).item<double>(), 1, 1e-5);
}

TEST(Jpeg, IsReadClosely) {
  EXPECT_LT(distance_to_gradient(jpeg_of(gradient(1), 1), 1), 2.5);
  EXPECT_LT(distance_to_gradient(jpeg_of(gradient(3), 3), 3), 4.5);
}

std::string refusal(const std::string& content) {
  const TemporaryFolder folder;
  io::write_file(folder / "a" / "image", content);
  return input_error(
      [&] { open_dataset(images(folder / "a" / "*"), image_shape(3, kSide, kSide, 1), 1); });
}

TEST(Formats, SayThatAFileIsNotWhole) {
  const std::string png = png_of(gradient(3), PNG_FORMAT_RGB), jpeg = jpeg_of(gradient(3), 3);
  for (const std::size_t part : {std::size_t{12}, png.size() / 2, png.size() - 16})
    EXPECT_THAT(refusal(png.substr(0, part)), HasSubstr("image: is not a whole PNG image: "));
  for (const std::size_t part : {std::size_t{12}, jpeg.size() / 2, jpeg.size() - 40})
    EXPECT_THAT(refusal(jpeg.substr(0, part)), HasSubstr("image: is not a whole JPEG image: "));
}

TEST(Formats, SayThatAFileIsDamaged) {
  std::string png = png_of(gradient(3), PNG_FORMAT_RGB);
  png[png.size() / 2] = static_cast<char>(png[png.size() / 2] ^ 0x55);
  EXPECT_THAT(refusal(png), HasSubstr("is not a whole PNG image: "));
  std::string jpeg = jpeg_of(gradient(3), 3);
  jpeg.replace(4, 200, 200, '\xff');
  EXPECT_THAT(refusal(jpeg), HasSubstr("is not a whole JPEG image: "));
}

}  // namespace
}  // namespace trireme::data
