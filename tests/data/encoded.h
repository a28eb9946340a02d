// Encodes image files with libpng and libjpeg.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <png.h>

#include <cstdio>
#include <cstdlib>
#include <string>
// jpeglib.h needs size_t and FILE.
#include <jpeglib.h>

namespace trireme::data {

/// `pixels` row by row in a format of libpng's simplified interface; a palette has colours in RGB.
inline std::string encoded_png(const std::string& pixels, int width, int height, png_uint_32 format,
                               const std::string& palette = "") {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = format;
  image.colormap_entries = static_cast<png_uint_32>(palette.size() / 3);
  std::string file(PNG_IMAGE_PNG_SIZE_MAX(image) + 1024, '\0');
  png_alloc_size_t size = file.size();
  EXPECT_NE(
      png_image_write_to_memory(&image, file.data(), &size, 0, pixels.data(), 0, palette.data()), 0)
      << image.message;
  file.resize(size);
  return file;
}

/// JPEG with 1, 3 or 4 channels (gray, RGB, CMYK), at the best quality; `change` may change that.
inline std::string encoded_jpeg(
    const std::string& pixels, int width, int height, int channels,
    void (*change)(jpeg_compress_struct&) = [](jpeg_compress_struct&) {}) {
  jpeg_compress_struct image{};
  jpeg_error_mgr errors{};
  image.err = jpeg_std_error(&errors);
  jpeg_create_compress(&image);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&image, &buffer, &size);
  image.image_width = static_cast<JDIMENSION>(width);
  image.image_height = static_cast<JDIMENSION>(height);
  image.input_components = channels;
  image.in_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&image);
  jpeg_set_quality(&image, 100, TRUE);
  change(image);
  jpeg_start_compress(&image, TRUE);
  std::string copy = pixels;
  const auto row_bytes = static_cast<std::size_t>(width) * static_cast<std::size_t>(channels);
  while (image.next_scanline < image.image_height) {
    auto* row = reinterpret_cast<JSAMPROW>(copy.data()) + image.next_scanline * row_bytes;
    jpeg_write_scanlines(&image, &row, 1);
  }
  jpeg_finish_compress(&image);
  std::string file(reinterpret_cast<const char*>(buffer), size);
  std::free(buffer);
  jpeg_destroy_compress(&image);
  return file;
}

}  // namespace trireme::data
