// Memory-mapped packed images. File format, all numbers little-endian:
//
//     byte 0   "trireme-images/1"
//     byte 16  uint64 images, uint64 channels, uint64 height, uint64 width
//     byte 48  16 zero bytes
//     byte 64  uint8 pixels [images, channels, height, width]
//     then     uint32 classes [images], from 0
//
// SPDX-License-Identifier: Apache-2.0
#include "file_list.h"
#include "image_source.h"
#include "mapped_file.h"
#include "sampled_digest.h"

#include "trireme/core/digest.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <bit>
#include <cstring>
#include <filesystem>

namespace trireme::data {
namespace {

static_assert(std::endian::native == std::endian::little, "packed files are mapped as they are");

constexpr std::int64_t kHeaderBytes = 64;

struct File {
  std::filesystem::path name;
  MappedFile map;
  std::int64_t first;  ///< index of its first image
  std::int64_t images, channels, height, width;

  std::int64_t image_bytes() const { return channels * height * width; }
};

class PackedImages final : public ImageSource {
 public:
  PackedImages(const std::vector<std::filesystem::path>& names, const ExampleShape& shape);

  std::int64_t size() const override { return size_; }
  std::int64_t label(std::int64_t image) const override;
  Picture picture(std::int64_t image) const override;
  std::string digest() const override;
  std::string describe() const override {
    return concat("packed images, ", count_of(files_.size(), "file"));
  }

 private:
  ExampleShape shape_;
  std::vector<File> files_;
  std::int64_t size_ = 0;
};

File open_packed(const std::filesystem::path& name, std::int64_t first);
/// Throws InputError unless every class is below model.classes.
void require_labels(const File& file, const ExampleShape& shape);
std::int64_t label_of(const File& file, std::int64_t place);

}  // namespace

std::unique_ptr<ImageSource> open_packed_images(const std::vector<std::filesystem::path>& files,
                                                const ExampleShape& shape) {
  return std::make_unique<PackedImages>(files, shape);
}

namespace {

PackedImages::PackedImages(const std::vector<std::filesystem::path>& names,
                           const ExampleShape& shape)
    : shape_(shape) {
  for (const auto& name : names) {
    files_.push_back(open_packed(name, size_));
    const File& file = files_.back();
    if (file.channels != shape.channels)
      throw InputError(concat(name.string(), ": its images have ", file.channels,
                              " channels, but model.channels is ", shape.channels));
    require_labels(file, shape);
    size_ += file.images;
  }
}

std::int64_t PackedImages::label(std::int64_t image) const {
  const File& file = *holding(files_, image);
  return label_of(file, image - file.first);
}

Picture PackedImages::picture(std::int64_t image) const {
  const File& file = *holding(files_, image);
  const auto* pixels = reinterpret_cast<const std::uint8_t*>(file.map.bytes().data()) +
                       kHeaderBytes + (image - file.first) * file.image_bytes();
  Picture picture{.channels = file.channels,
                  .height = file.height,
                  .width = file.width,
                  .values = {pixels, pixels + file.image_bytes()}};
  const bool fits = file.height == shape_.height && file.width == shape_.width;
  return fits ? picture : fitted(picture, shape_.channels, shape_.height, shape_.width);
}

std::string PackedImages::digest() const {
  std::string parts = "packed";
  for (const File& file : files_) parts += sampled_digest(file.map.bytes());
  return trireme::digest(parts);
}

File open_packed(const std::filesystem::path& name, std::int64_t first) {
  MappedFile map(name);
  const auto bytes = static_cast<std::int64_t>(map.bytes().size());
  if (bytes < kHeaderBytes ||
      std::memcmp(map.bytes().data(), kPackedMagic.data(), kPackedMagic.size()) != 0)
    throw InputError(concat(name.string(), ": is no packed file, must begin with \"", kPackedMagic,
                            "\" and have a header of ", kHeaderBytes,
                            " bytes (packed files and image files cannot be mixed)"));
  std::uint64_t sizes[4];
  std::memcpy(sizes, map.bytes().data() + kPackedMagic.size(), sizeof(sizes));
  constexpr std::uint64_t kMost[4] = {std::uint64_t{1} << 36, 4096, kMostSide, kMostSide};
  for (std::size_t i = 0; i < 4; ++i) {
    if (sizes[i] < 1 || sizes[i] > kMost[i])
      throw InputError(concat(name.string(), ": the header says ", sizes[0], " images of ",
                              sizes[1], " x ", sizes[2], " x ", sizes[3],
                              " (channels, height, width), which cannot be"));
  }
  File file{.name = name,
            .map = std::move(map),
            .first = first,
            .images = static_cast<std::int64_t>(sizes[0]),
            .channels = static_cast<std::int64_t>(sizes[1]),
            .height = static_cast<std::int64_t>(sizes[2]),
            .width = static_cast<std::int64_t>(sizes[3])};
  // In floating point, since the product of damaged sizes may not fit.
  const double needed = static_cast<double>(file.images) *
                            (static_cast<double>(file.channels) * static_cast<double>(file.height) *
                                 static_cast<double>(file.width) +
                             sizeof(std::uint32_t)) +
                        static_cast<double>(kHeaderBytes);
  if (needed != static_cast<double>(bytes))
    throw InputError(concat(name.string(), ": has ", bytes, " bytes, must have ", needed, " for ",
                            file.images, " images of ", file.channels, " x ", file.height, " x ",
                            file.width, " and their classes: is it truncated?"));
  return file;
}

void require_labels(const File& file, const ExampleShape& shape) {
  for (std::int64_t i = 0; i < file.images; ++i) {
    if (label_of(file, i) >= shape.classes)
      throw InputError(concat(file.name.string(), ": image ", i, " is of class ", label_of(file, i),
                              ", must be below model.classes = ", shape.classes));
  }
}

std::int64_t label_of(const File& file, std::int64_t place) {
  std::uint32_t label = 0;
  std::memcpy(&label,
              file.map.bytes().data() + kHeaderBytes + file.images * file.image_bytes() +
                  place * static_cast<std::int64_t>(sizeof(label)),
              sizeof(label));
  return label;
}

}  // namespace
}  // namespace trireme::data
