// SPDX-License-Identifier: Apache-2.0
#include "trireme/data/pack_images.h"

#include "file_list.h"
#include "image_source.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <fstream>
#include <limits>
#include <system_error>

namespace trireme::data {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "numbers are written as they are");

template <class Value>
void put(std::ofstream& out, const Value& value) {
  out.write(reinterpret_cast<const char*>(&value), sizeof(value));
}

/// Returns the number of classes.
std::int64_t write(std::ofstream& out, const ImageSource& source, const ExampleShape& shape,
                   const std::function<bool()>& is_stopped) {
  out << kPackedMagic;
  put(out, std::array{source.size(), shape.channels, shape.height, shape.width, std::int64_t{0},
                      std::int64_t{0}});
  for (std::int64_t image = 0; image < source.size() && out; ++image) {
    if (is_stopped()) throw Error("stopped on request");
    const Picture picture = source.picture(image);
    out.write(reinterpret_cast<const char*>(picture.values.data()), picture.size());
  }
  std::int64_t classes = 0;
  for (std::int64_t image = 0; image < source.size(); ++image) {
    put(out, static_cast<std::uint32_t>(source.label(image)));
    classes = std::max(classes, source.label(image) + 1);
  }
  return classes;
}

}  // namespace

PackedCounts pack_images(const std::vector<std::string>& patterns, std::int64_t channels,
                         std::int64_t side, const fs::path& output,
                         const std::function<bool()>& is_stopped) {
  const ExampleShape shape{.input = "images",
                           .inputs = channels * side * side,
                           .classes = std::numeric_limits<std::uint32_t>::max(),
                           .channels = channels,
                           .height = side,
                           .width = side};
  const auto source = open_image_files(list_files(patterns), shape);
  std::error_code none;
  const fs::path target = fs::is_symlink(output, none) ? fs::weakly_canonical(output) : output;
  const fs::path draft = concat(target.string(), ".", ::getpid(), ".draft");
  try {
    std::ofstream out(draft, std::ios::binary | std::ios::trunc);
    const std::int64_t classes = write(out, *source, shape, is_stopped);
    out.close();
    if (!out) throw Error(concat(output.string(), ": cannot be written whole"));
    fs::rename(draft, target);
    return {.images = source->size(), .classes = classes};
  } catch (...) {
    fs::remove(draft, none);
    throw;
  }
}

}  // namespace trireme::data
