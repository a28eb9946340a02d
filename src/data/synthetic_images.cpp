// Synthetic images: one coarse pattern per class, slightly shifted, under noise.
// SPDX-License-Identifier: Apache-2.0
#include "synthetic.h"

#include <ATen/ATen.h>

#include <vector>

namespace trireme::data {
namespace {

/// Pixels are (pattern of the class at the shifted position + kNoise x noise), both of standard
/// deviation 1, scaled to standard deviation 1. A pattern has kCells x kCells values per channel.
class SyntheticImages final : public Synthetic {
 public:
  SyntheticImages(const config::DataSpec& spec, const ExampleShape& shape, std::int64_t seed);

  std::string digest() const override {
    return trireme::digest(
        concat(Synthetic::digest(), ' ', shape_.channels, ' ', shape_.height, ' ', shape_.width));
  }

 protected:
  MicroBatch empty(std::int64_t examples) const override { return empty_images(examples, shape_); }
  void fill(std::int64_t example, std::int64_t row, MicroBatch& batch) const override;

 private:
  static constexpr std::int64_t kCells = 4;
  /// The largest shift is a side / kShift.
  static constexpr std::int64_t kShift = 8;
  static constexpr std::int64_t kNoise = 3;
  static constexpr double kDeviation =
      Stream::kBellDeviation * 3.1622776601683795;  ///< root of 1 + 9

  std::vector<std::int64_t> patterns_;  ///< [classes, channels, kCells, kCells]
};

}  // namespace

std::unique_ptr<Dataset> make_synthetic_images(const config::DataSpec& spec,
                                               const ExampleShape& shape, std::int64_t seed) {
  require_examples(spec);
  return std::make_unique<SyntheticImages>(spec, shape, seed);
}

namespace {

SyntheticImages::SyntheticImages(const config::DataSpec& spec, const ExampleShape& shape,
                                 std::int64_t seed)
    : Synthetic(spec, shape, seed) {
  Stream stream = rule_stream();
  patterns_.resize(static_cast<std::size_t>(shape.classes * shape.channels * kCells * kCells));
  for (std::int64_t& value : patterns_) value = stream.bell();
}

void SyntheticImages::fill(std::int64_t example, std::int64_t row, MicroBatch& batch) const {
  const std::int64_t C = shape_.channels, H = shape_.height, W = shape_.width;
  Stream stream = example_stream(example);
  const auto below = [&stream](std::int64_t bound) {
    return static_cast<std::int64_t>(stream.next() % static_cast<std::uint64_t>(bound));
  };
  const std::int64_t label = below(shape_.classes);
  const std::int64_t down = below(H / kShift + 1), right = below(W / kShift + 1);
  const std::int64_t* pattern = patterns_.data() + label * C * kCells * kCells;
  float* pixel = batch.input.data_ptr<float>() + row * C * H * W;
  for (std::int64_t c = 0; c < C; ++c, pattern += kCells * kCells) {
    for (std::int64_t y = 0; y < H; ++y) {
      const std::int64_t* cells = pattern + (y + down) % H * kCells / H * kCells;
      for (std::int64_t x = 0; x < W; ++x) {
        const std::int64_t value = cells[(x + right) % W * kCells / W] + kNoise * stream.bell();
        *pixel++ = static_cast<float>(static_cast<double>(value) / kDeviation);
      }
    }
  }
  batch.target.data_ptr<std::int64_t>()[row] = label;
}

}  // namespace
}  // namespace trireme::data
