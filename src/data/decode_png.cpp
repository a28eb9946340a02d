// PNG decoding with libpng's simplified interface, which reports errors by value.
// SPDX-License-Identifier: Apache-2.0
#include "picture.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <png.h>

#include <new>
#include <string_view>

namespace trireme::data {
namespace {

/// Frees what libpng holds for an image.
struct PngImage {
  PngImage() { image.version = PNG_IMAGE_VERSION; }
  ~PngImage() { png_image_free(&image); }
  PngImage(const PngImage&) = delete;
  PngImage& operator=(const PngImage&) = delete;

  png_image image{};
};

}  // namespace

Picture decode_png(std::span<const std::byte> bytes, std::string_view name) {
  PngImage png;
  const auto fail = [&] {
    // libpng reports this only as text: "out of memory", "Insufficient memory ...".
    if (std::string_view(png.image.message).find("memory") != std::string_view::npos)
      throw std::bad_alloc();
    throw InputError(concat(name, ": is not a whole PNG image: ", png.image.message));
  };
  if (png_image_begin_read_from_memory(&png.image, bytes.data(), bytes.size()) == 0) fail();
  const std::int64_t width = png.image.width, height = png.image.height;
  require_size(width, height, name);
  const bool is_colour = (png.image.format & PNG_FORMAT_FLAG_COLOR) != 0;
  png.image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;  // as for 8 bits, if the file does not say
  png.image.format = is_colour ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  std::vector<std::uint8_t> pixels(PNG_IMAGE_SIZE(png.image));
  const png_color white{.red = 255, .green = 255, .blue = 255};
  if (png_image_finish_read(&png.image, &white, pixels.data(), /*row_stride=*/0,
                            /*colormap=*/nullptr) == 0)
    fail();
  return from_interleaved(pixels, is_colour ? 3 : 1, height, width);
}

}  // namespace trireme::data
