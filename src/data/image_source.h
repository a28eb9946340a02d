// Interface to numbered images with classes, independent of how they are stored.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "picture.h"

#include "trireme/data/dataset.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace trireme::data {

class ImageSource {
 public:
  virtual ~ImageSource() = default;

  virtual std::int64_t size() const = 0;
  /// The class, from 0.
  virtual std::int64_t label(std::int64_t image) const = 0;
  /// The image in the chain's size. Throws InputError that names the file.
  virtual Picture picture(std::int64_t image) const = 0;
  virtual std::string digest() const = 0;
  /// "images, 120 files in 3 folders".
  virtual std::string describe() const = 0;
};

/// The first bytes of a packed file.
inline constexpr std::string_view kPackedMagic = "trireme-images/1";

/// Opens packed files if the first one is packed, else image files in folders. Throws InputError as
/// for `open_dataset`.
std::unique_ptr<ImageSource> open_images(const std::vector<std::string>& patterns,
                                         const ExampleShape& shape);
std::unique_ptr<ImageSource> open_image_files(const std::vector<std::filesystem::path>& files,
                                              const ExampleShape& shape);
std::unique_ptr<ImageSource> open_packed_images(const std::vector<std::filesystem::path>& files,
                                                const ExampleShape& shape);

}  // namespace trireme::data
