// Image data set.
// SPDX-License-Identifier: Apache-2.0
#include "file_list.h"
#include "image_source.h"
#include "kinds.h"
#include "numbered.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/data/sampler.h"
#include "trireme/io/pieces.h"

#include <ATen/ATen.h>

#include <array>
#include <span>
#include <utility>

namespace trireme::data {
namespace {

/// The same for all runs, so that no run trains on another's validation data.
constexpr std::uint64_t kSplitKey = 0x7472696d616765;
/// Number of train images over which the mean is taken.
constexpr std::int64_t kMeanImages = 256;

/// Examples are places in a fixed permutation of all images, so that classes are mixed: train part
/// first.
class ImagesDataset final : public NumberedExamples {
 public:
  ImagesDataset(std::unique_ptr<ImageSource> source, const ExampleShape& shape,
                std::int64_t validation, std::int64_t seed);

  std::string digest() const override { return source_->digest(); }
  std::string describe() const override {
    const std::string validation = validation_examples() == 0
                                       ? "none for validation"
                                       : concat(validation_examples(), " for validation");
    return concat(source_->describe(), ": ", train_examples(), " images to train on, ", validation);
  }

 protected:
  MicroBatch empty(std::int64_t examples) const override { return empty_images(examples, shape_); }
  void fill(std::int64_t place, std::int64_t row, MicroBatch& batch) const override;
  void fill_target(std::int64_t place, std::int64_t row, MicroBatch& batch) const override {
    batch.target.data_ptr<std::int64_t>()[row] = source_->label(image(place));
  }

 private:
  std::int64_t image(std::int64_t place) const {
    return static_cast<std::int64_t>(order_(static_cast<std::uint64_t>(place)));
  }
  /// Computes what the values 0..255 of every channel become.
  void set_levels();

  std::unique_ptr<ImageSource> source_;
  Permutation order_;
  std::vector<std::array<float, 256>> levels_;
};

bool is_packed(const std::filesystem::path& file);

}  // namespace

std::unique_ptr<Dataset> make_images(const config::DataSpec& spec, const ExampleShape& shape,
                                     std::int64_t seed) {
  ensure(shape.channels * shape.height * shape.width == shape.inputs, "the sizes of an image");
  auto source = open_images(spec.files, shape);
  const std::int64_t validation = validation_size(source->size(), spec.validation_fraction);
  return std::make_unique<ImagesDataset>(std::move(source), shape, validation, seed);
}

std::unique_ptr<ImageSource> open_images(const std::vector<std::string>& patterns,
                                         const ExampleShape& shape) {
  const std::vector<std::filesystem::path> files = list_files(patterns);
  return is_packed(files.front()) ? open_packed_images(files, shape)
                                  : open_image_files(files, shape);
}

MicroBatch empty_images(std::int64_t examples, const ExampleShape& shape) {
  ensure(examples >= 1, "a micro-batch has at least one example");
  return {.input = at::empty({examples, shape.channels, shape.height, shape.width}, at::kFloat),
          .target = at::empty({examples}, at::kLong)};
}

namespace {

ImagesDataset::ImagesDataset(std::unique_ptr<ImageSource> source, const ExampleShape& shape,
                             std::int64_t validation, std::int64_t seed)
    : NumberedExamples(shape, source->size(), validation, seed),
      source_(std::move(source)),
      order_(static_cast<std::uint64_t>(source_->size()), kSplitKey) {
  set_levels();
}

void ImagesDataset::fill(std::int64_t place, std::int64_t row, MicroBatch& batch) const {
  const Picture picture = source_->picture(image(place));
  float* pixel = batch.input.data_ptr<float>() + row * picture.size();
  const std::uint8_t* value = picture.values.data();
  for (const std::array<float, 256>& level : levels_) {
    for (std::int64_t i = 0; i < picture.height * picture.width; ++i) *pixel++ = level[*value++];
  }
  fill_target(place, row, batch);
}

void ImagesDataset::set_levels() {
  const std::int64_t images = std::min(kMeanImages, train_examples());
  const auto plane = static_cast<std::size_t>(shape_.height * shape_.width);
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(shape_.channels));
  for (std::int64_t i = 0; i < images; ++i) {
    const Picture picture = source_->picture(image(evenly_spaced(i, images, train_examples())));
    for (std::size_t v = 0; v < picture.values.size(); ++v) sums[v / plane] += picture.values[v];
  }
  levels_.resize(sums.size());
  for (std::size_t c = 0; c < sums.size(); ++c) {
    const double mean =
        static_cast<double>(sums[c]) / (static_cast<double>(images) * static_cast<double>(plane));
    for (std::size_t v = 0; v < 256; ++v)
      levels_[c][v] = static_cast<float>((static_cast<double>(v) - mean) / 255);
  }
}

bool is_packed(const std::filesystem::path& file) {
  const io::InputFile in(file);
  std::string begin(kPackedMagic.size(), '\0');
  if (std::cmp_less(in.size().count(), begin.size())) return false;
  in.read(std::as_writable_bytes(std::span(begin)), 0);
  return begin == kPackedMagic;
}

}  // namespace
}  // namespace trireme::data
