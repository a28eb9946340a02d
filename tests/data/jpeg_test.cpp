// JPEG files of many kinds have the pixels that libjpeg's defaults give, or are refused.
// SPDX-License-Identifier: Apache-2.0
#include "encoded.h"
#include "picture.h"
#include "support/input_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <span>
#include <string>
#include <vector>

namespace trireme::data {
namespace {

using support::input_error;
using testing::HasSubstr;

constexpr int kWidth = 37, kHeight = 21;

struct Kind {
  const char* name;
  int channels;
  void (*change)(jpeg_compress_struct&);
};

void sample(jpeg_compress_struct& image, int across, int down) {
  image.comp_info[0].h_samp_factor = across;
  image.comp_info[0].v_samp_factor = down;
}

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all{
      {"Gray", 1, [](jpeg_compress_struct&) {}},
      {"Colour", 3, [](jpeg_compress_struct&) {}},
      {"PoorColour", 3, [](jpeg_compress_struct& image) { jpeg_set_quality(&image, 20, TRUE); }},
      {"WholeColour", 3, [](jpeg_compress_struct& image) { sample(image, 1, 1); }},
      {"WideColour", 3, [](jpeg_compress_struct& image) { sample(image, 2, 1); }},
      {"HighColour", 3, [](jpeg_compress_struct& image) { sample(image, 1, 2); }},
      {"VeryWideColour", 3, [](jpeg_compress_struct& image) { sample(image, 4, 2); }},
      {"PlainRgb", 3, [](jpeg_compress_struct& image) { jpeg_set_colorspace(&image, JCS_RGB); }},
      {"Restarts", 3, [](jpeg_compress_struct& image) { image.restart_interval = 2; }},
      {"ProgressiveGray", 1, [](jpeg_compress_struct& image) { jpeg_simple_progression(&image); }},
      {"Progressive", 3, [](jpeg_compress_struct& image) { jpeg_simple_progression(&image); }},
      {"Arithmetic", 3, [](jpeg_compress_struct& image) { image.arith_code = TRUE; }},
      {"Cmyk", 4, [](jpeg_compress_struct&) {}},
      {"CmykOfOthers", 4, [](jpeg_compress_struct& image) { image.write_Adobe_marker = FALSE; }},
      {"Ycck", 4, [](jpeg_compress_struct& image) { jpeg_set_colorspace(&image, JCS_YCCK); }},
      {"ProgressiveYcck", 4, [](jpeg_compress_struct& image) {
         jpeg_set_colorspace(&image, JCS_YCCK);
         jpeg_simple_progression(&image);
       }}};
  return all;
}

/// A smooth image with some noise.
std::string file_of(const Kind& kind) {
  std::mt19937 random(7);
  std::string pixels;
  for (int y = 0; y < kHeight; ++y)
    for (int x = 0; x < kWidth; ++x)
      for (int c = 0; c < kind.channels; ++c)
        pixels.push_back(
            static_cast<char>(4 * x + 3 * y + 20 * c + static_cast<int>(random() % 9)));
  return encoded_jpeg(pixels, kWidth, kHeight, kind.channels, kind.change);
}

/// The image as libjpeg gives it, pixel by pixel, with 3 channels for 4.
std::vector<std::uint8_t> as_libjpeg_reads(const std::string& file) {
  jpeg_decompress_struct image{};
  jpeg_error_mgr errors{};
  image.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&image);
  jpeg_mem_src(&image, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&image, TRUE);
  if (image.num_components == 4) image.out_color_space = JCS_CMYK;
  jpeg_start_decompress(&image);
  const auto channels = static_cast<std::size_t>(image.output_components);
  std::vector<std::uint8_t> row(image.output_width * channels), pixels;
  while (image.output_scanline < image.output_height) {
    JSAMPROW into = row.data();
    jpeg_read_scanlines(&image, &into, 1);
    for (std::size_t at = 0; at < row.size(); at += channels)
      for (std::size_t c = 0; c < std::min<std::size_t>(channels, 3); ++c) {
        const auto white = [&](std::size_t ink) {  // Adobe's programs write 255 for no ink
          return image.saw_Adobe_marker != 0 ? row[at + ink] : 255.0 - row[at + ink];
        };
        pixels.push_back(channels == 4 ? static_cast<std::uint8_t>(white(c) * white(3) / 255 + 0.5)
                                       : row[at + c]);
      }
  }
  jpeg_finish_decompress(&image);
  jpeg_destroy_decompress(&image);
  return pixels;
}

Picture decoded(const std::string& file) {
  return decode_jpeg(std::as_bytes(std::span(file)), "a.jpg");
}

std::string refusal(const std::string& file) {
  return input_error([&] { decoded(file); });
}

/// The file with junk before the last of these markers.
std::string with_junk(std::string file, char marker) {
  return file.insert(file.rfind(std::string{'\xff', marker}), "junk");
}

/// The file with an end after the first bytes of its first scan, as programs write one that mend a
/// file whose end was cut off.
std::string ended_early(const std::string& file) {
  return file.substr(0, file.find("\xff\xda") + 20) + "\xff\xd9";
}

class JpegKind : public testing::TestWithParam<Kind> {};

TEST_P(JpegKind, HasThePixelsThatLibjpegReads) {
  const std::string file = file_of(GetParam());
  const Picture picture = decoded(file);
  EXPECT_EQ(picture.height, kHeight);
  EXPECT_EQ(picture.width, kWidth);
  EXPECT_EQ(picture.channels, GetParam().channels == 1 ? 1 : 3);
  EXPECT_EQ(picture.values,
            from_interleaved(as_libjpeg_reads(file), picture.channels, kHeight, kWidth).values);
}

TEST_P(JpegKind, IsRefusedWithoutItsEnd) {
  const std::string file = file_of(GetParam());
  for (const std::size_t part : {std::size_t{3}, std::size_t{20}, std::size_t{200}, file.size() / 2,
                                 file.size() - 40, file.size() - 2})
    EXPECT_THAT(refusal(file.substr(0, part)), HasSubstr("a.jpg: is not a whole JPEG image: "))
        << part;
}

TEST_P(JpegKind, MayHaveJunkBetweenSegments) {
  const std::string file = file_of(GetParam());
  for (const char marker : {'\xd9', '\xda'}) {  // the end, the last scan
    const std::string junk = with_junk(file, marker);
    EXPECT_EQ(decoded(junk).values, decoded(file).values);
    EXPECT_THAT(refusal(junk.substr(0, junk.size() - 2)),
                HasSubstr("a.jpg: is not a whole JPEG image: "));
  }
}

INSTANTIATE_TEST_SUITE_P(Files, JpegKind, testing::ValuesIn(kinds()),
                         [](const auto& test) { return test.param.name; });

TEST(Jpeg, OfTwoChannelsIsRefused) {
  const std::string pixels(2 * kWidth * kHeight, 'a');
  const std::string file =
      encoded_jpeg(pixels, kWidth, kHeight, 2, [](jpeg_compress_struct& image) {
        image.in_color_space = JCS_UNKNOWN;
        jpeg_set_colorspace(&image, JCS_UNKNOWN);
      });
  EXPECT_THAT(refusal(file), HasSubstr("a.jpg: is not a whole JPEG image: "));
}

// An arithmetic decoder takes zeros after its last bits, since writers leave them out. Of junk,
// too, libjpeg warns, and before that.
TEST(Jpeg, WhoseHuffmanCodesEndEarlyIsRefused) {
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    if (std::string(kind.name) == "Arithmetic") continue;
    const std::string file = ended_early(file_of(kind));
    for (const std::string& cut : {file, with_junk(file, '\xda')})
      EXPECT_EQ(
          refusal(cut),
          "a.jpg: is not a whole JPEG image: Corrupt JPEG data: premature end of data segment");
  }
}

// ITU-T T.81, B.2.2: the byte after a frame's length is its bits per sample.
TEST(Jpeg, OfTwelveBitsIsRefused) {
  std::string file = file_of(kinds().front());
  file[file.find("\xff\xc0") + 4] = 12;
  EXPECT_EQ(refusal(file), "a.jpg: is not a whole JPEG image: Unsupported JPEG data precision 12");
}

TEST(Jpeg, OfMorePixelsThanAreDecodedIsRefusedByItsHead) {
  std::string file = file_of(kinds().front());
  file.replace(file.find("\xff\xc0") + 5, 4, "\xff\xdc\xff\xdc");
  EXPECT_THAT(refusal(file), HasSubstr("a.jpg: says that it is 65500 x 65500 pixels"));
}

}  // namespace
}  // namespace trireme::data
