// Image files of all formats, decoded on demand. A file's folder is its class.
// SPDX-License-Identifier: Apache-2.0
#include "image_source.h"
#include "mapped_file.h"

#include "trireme/core/digest.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/data/sampler.h"
#include "trireme/io/pieces.h"

#include <algorithm>
#include <map>
#include <utility>

namespace trireme::data {
namespace {

class ImageFiles final : public ImageSource {
 public:
  ImageFiles(const std::vector<std::filesystem::path>& files, const ExampleShape& shape);

  std::int64_t size() const override { return static_cast<std::int64_t>(files_.size()); }
  std::int64_t label(std::int64_t image) const override { return at(image).label; }
  Picture picture(std::int64_t image) const override {
    return fitted(decode(at(image).name), shape_.channels, shape_.height, shape_.width);
  }
  std::string digest() const override;
  std::string describe() const override {
    return concat("images, ", count_of(files_.size(), "file"), " in ",
                  count_of(folders_, "folder"));
  }

 private:
  struct File {
    std::filesystem::path name;
    std::int64_t label;
  };
  const File& at(std::int64_t image) const { return files_[static_cast<std::size_t>(image)]; }

  ExampleShape shape_;
  std::vector<File> files_;
  std::size_t folders_ = 0;
};

/// "cats" for photos/cats/tom.jpg, however the path was written.
std::string folder_of(const std::filesystem::path& file) {
  std::error_code failure;
  const std::filesystem::path whole = std::filesystem::absolute(file, failure);
  if (failure)
    throw InputError(concat("the working folder is gone (", failure.message(), "), so that ",
                            file.string(), " has no folder, which is its class"));
  return whole.lexically_normal().parent_path().filename().string();
}

}  // namespace

std::unique_ptr<ImageSource> open_image_files(const std::vector<std::filesystem::path>& files,
                                              const ExampleShape& shape) {
  return std::make_unique<ImageFiles>(files, shape);
}

namespace {

ImageFiles::ImageFiles(const std::vector<std::filesystem::path>& files, const ExampleShape& shape)
    : shape_(shape) {
  if (shape.channels != 1 && shape.channels != 3)
    throw InputError(
        concat("data.files names images, which have 1 or 3 channels, but "
               "model.channels is ",
               shape.channels, ": use a packed file"));
  std::map<std::string, std::int64_t> labels;
  for (const auto& file : files) labels[folder_of(file)] = 0;
  folders_ = labels.size();
  if (std::cmp_greater(folders_, shape.classes))
    throw InputError(concat("data.files names images in ", folders_,
                            " folders, each of which is a class, but model.classes is ",
                            shape.classes));
  std::int64_t next = 0;
  for (auto& [folder, label] : labels) label = next++;
  for (const auto& file : files) files_.push_back({file, labels.at(folder_of(file))});
}

std::string ImageFiles::digest() const {
  constexpr std::int64_t kMostRead = 64;
  std::string parts;
  for (const File& file : files_)
    parts += concat(file.label, ' ', file.name.filename().string(), ' ',
                    io::InputFile(file.name).size().count(), '\n');
  const std::int64_t reads = std::min(kMostRead, size());
  for (std::int64_t i = 0; i < reads; ++i) {
    const MappedFile map(at(evenly_spaced(i, reads, size())).name);
    parts += trireme::digest(map.bytes().data(), map.bytes().size());
  }
  return trireme::digest(parts);
}

}  // namespace
}  // namespace trireme::data
