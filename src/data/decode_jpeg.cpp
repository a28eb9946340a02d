// JPEG decoding with libjpeg, whose errors jump: to one place alone, which throws instead.
// SPDX-License-Identifier: Apache-2.0
#include "picture.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <array>
#include <csetjmp>
#include <cstdio>
#include <new>
// jpeglib.h needs size_t and FILE.
#include <jerror.h>
#include <jpeglib.h>

namespace trireme::data {
namespace {

constexpr int kInks = 4;

/// Converts cyan, magenta, yellow and black to red, green and blue.
std::vector<std::uint8_t> colours_of(const std::vector<std::uint8_t>& inks, bool is_inverted);

class JpegReader {
 public:
  /// `name` is for errors.
  explicit JpegReader(std::string_view name);
  ~JpegReader() { jpeg_destroy_decompress(&image_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  /// Both throw InputError if the file is damaged, std::bad_alloc if libjpeg got no memory.
  void begin(std::span<const std::byte> bytes);
  void read_rows(std::uint8_t* into);

  std::int64_t width() const { return image_.output_width; }
  std::int64_t height() const { return image_.output_height; }
  std::int64_t channels() const { return image_.output_components; }
  /// Adobe's programs write CMYK with 255 for no ink.
  bool is_inverted() const { return image_.saw_Adobe_marker != 0; }

 private:
  /// Makes `calls` of libjpeg, and throws where they jump back to here. They construct nothing that
  /// has a destructor.
  template <class Calls>
  void make(const Calls& calls) {
    if (setjmp(place_) != 0) fail();
    calls();
  }
  [[noreturn]] void fail();
  [[noreturn]] static void jump(j_common_ptr image);
  static void note(j_common_ptr image, int level);

  std::string_view name_;
  jpeg_decompress_struct image_{};
  jpeg_error_mgr errors_{};
  std::jmp_buf place_{};
};

}  // namespace

Picture decode_jpeg(std::span<const std::byte> bytes, std::string_view name) {
  JpegReader reader(name);
  reader.begin(bytes);
  require_size(reader.width(), reader.height(), name);
  std::vector<std::uint8_t> pixels(
      static_cast<std::size_t>(reader.channels() * reader.height() * reader.width()));
  reader.read_rows(pixels.data());
  if (reader.channels() == kInks)
    return from_interleaved(colours_of(pixels, reader.is_inverted()), 3, reader.height(),
                            reader.width());
  return from_interleaved(pixels, reader.channels(), reader.height(), reader.width());
}

namespace {

JpegReader::JpegReader(std::string_view name) : name_(name) {
  image_.err = jpeg_std_error(&errors_);
  image_.client_data = this;
  errors_.error_exit = jump;
  errors_.emit_message = note;
}

void JpegReader::begin(std::span<const std::byte> bytes) {
  make([&] {
    jpeg_create_decompress(&image_);
    image_.client_data = this;
    jpeg_mem_src(&image_, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    jpeg_read_header(&image_, TRUE);
    const J_COLOR_SPACE space = image_.jpeg_color_space;
    const bool has_inks = space == JCS_CMYK || space == JCS_YCCK;
    image_.out_color_space = has_inks ? JCS_CMYK : space == JCS_GRAYSCALE ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_calc_output_dimensions(&image_);
  });
}

void JpegReader::read_rows(std::uint8_t* into) {
  make([&] {
    jpeg_start_decompress(&image_);
    while (image_.output_scanline < image_.output_height) {
      JSAMPROW row = into + static_cast<std::size_t>(image_.output_scanline) * image_.output_width *
                                static_cast<std::size_t>(image_.output_components);
      jpeg_read_scanlines(&image_, &row, 1);
    }
    jpeg_finish_decompress(&image_);
  });
}

std::vector<std::uint8_t> colours_of(const std::vector<std::uint8_t>& inks, bool is_inverted) {
  std::vector<std::uint8_t> colours;
  colours.reserve(inks.size() / kInks * 3);
  const auto without_ink = [&](std::size_t place) {
    return is_inverted ? inks[place] : 255 - inks[place];
  };
  for (std::size_t pixel = 0; pixel < inks.size(); pixel += kInks)
    for (std::size_t c = 0; c < 3; ++c)
      colours.push_back(
          static_cast<std::uint8_t>((without_ink(pixel + c) * without_ink(pixel + 3) + 127) / 255));
  return colours;
}

void JpegReader::fail() {
  if (errors_.msg_code == JERR_OUT_OF_MEMORY) throw std::bad_alloc();
  std::array<char, JMSG_LENGTH_MAX> message{};
  errors_.format_message(reinterpret_cast<j_common_ptr>(&image_), message.data());
  throw InputError(concat(name_, ": is not a whole JPEG image: ", message.data()));
}

void JpegReader::jump(j_common_ptr image) {
  std::longjmp(static_cast<JpegReader*>(image->client_data)->place_, 1);
}

void JpegReader::note(j_common_ptr image, int level) {
  // libjpeg fills missing data with gray and continues. Other warnings are about junk between
  // segments, which many files have.
  const bool is_truncated =
      image->err->msg_code == JWRN_JPEG_EOF || image->err->msg_code == JWRN_HIT_MARKER;
  if (level < 0 && is_truncated) jump(image);
}

}  // namespace
}  // namespace trireme::data
