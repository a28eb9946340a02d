// SPDX-License-Identifier: Apache-2.0
#include "trireme/data/own_examples.h"

#include "kinds.h"
#include "numbered.h"

#include "trireme/core/digest.h"
#include "trireme/core/text.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace trireme::data {
namespace {

/// The same for all runs, so that no run trains on another's validation data.
constexpr std::uint64_t kSplitKey = 0x7472696d656f77;
/// Number of examples of which a digest is made.
constexpr std::int64_t kDigested = 256;

/// One of the caller's examples.
struct Place {
  const OwnExamples* of = nullptr;
  std::int64_t number = 0;

  Example example() const { return of->example(number); }
  std::string describe() const { return concat("example ", number, " of ", of->name()); }
};

/// Examples are places in a fixed permutation of all examples: train part first. Those of a
/// validation set of their own come last.
class OwnDataset final : public NumberedExamples {
 public:
  /// `held_out` has the `validation` examples, or is null.
  OwnDataset(std::unique_ptr<OwnExamples> source, std::unique_ptr<OwnExamples> held_out,
             const ExampleShape& shape, std::int64_t validation, std::int64_t seed)
      : NumberedExamples(shape, source->size() + (held_out ? validation : 0), validation, seed),
        source_(std::move(source)),
        held_out_(std::move(held_out)),
        order_(static_cast<std::uint64_t>(source_->size()), kSplitKey) {}

  std::optional<std::int64_t> train_counted(std::int64_t first, std::int64_t count) const override {
    if (!shape_.takes_masks) return std::nullopt;
    return counted({first, count, 0}, [&] { return train_places(first, count); });
  }
  std::optional<std::int64_t> validation_counted(std::int64_t first, std::int64_t count,
                                                 std::int64_t total) const override {
    if (!shape_.takes_masks) return std::nullopt;
    return counted({first, count, total}, [&] { return validation_places(first, count, total); });
  }

  std::string digest() const override;
  std::string describe() const override {
    const std::string validation = validation_examples() == 0
                                       ? "none for validation"
                                       : concat(validation_examples(), " for validation");
    return concat(source_->name(), ": ", train_examples(), " examples to train on, ", validation,
                  held_out_ ? concat(" (", held_out_->name(), ")") : "");
  }

 protected:
  MicroBatch empty(std::int64_t examples) const override;
  void fill(std::int64_t place, std::int64_t row, MicroBatch& batch) const override;
  void fill_target(std::int64_t place, std::int64_t row, MicroBatch& batch) const override;

 private:
  Place found_at(std::int64_t place) const {
    if (held_out_ && place >= source_->size()) return {held_out_.get(), place - source_->size()};
    return {source_.get(), static_cast<std::int64_t>(order_(static_cast<std::uint64_t>(place)))};
  }
  using Asked = std::array<std::int64_t, 3>;
  /// Unmasked targets at these places. Every micro-batch of a step asks for the same ones, which
  /// are fetched once.
  std::int64_t counted(const Asked& asked,
                       const std::function<std::vector<std::int64_t>()>& places) const;
  void put_target(const Place& place, const at::Tensor& target, at::Tensor row) const;
  /// Throws InputError unless the example's part has the sizes of a row, and numbers of its kind.
  void require_like(const Place& place, const char* part, const at::Tensor& value,
                    const at::Tensor& row) const;
  void require_classes(const Place& place, const char* part, const at::Tensor& value) const;
  void require_target(const Place& place, const at::Tensor& target) const;

  std::unique_ptr<OwnExamples> source_, held_out_;
  Permutation order_;
  mutable std::mutex mutex_;
  mutable std::pair<Asked, std::int64_t> last_counted_{};
};

void require_some(const OwnExamples& examples) {
  if (examples.size() < 1) throw InputError(concat(examples.name(), " has no example"));
}

void add_digests(const OwnExamples& examples, std::string& all) {
  const std::int64_t size = examples.size(), count = std::min(size, kDigested);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto [input, target] = examples.example(evenly_spaced(i, count, size));
    for (const at::Tensor& value : {input.contiguous(), target.contiguous()})
      all += trireme::digest(value.const_data_ptr(), value.nbytes());
  }
}

}  // namespace

std::unique_ptr<Dataset> make_own(std::unique_ptr<OwnExamples> examples, const ExampleShape& shape,
                                  double validation_fraction, std::int64_t seed) {
  require_some(*examples);
  const std::int64_t size = examples->size();
  const std::int64_t validation = validation_size(size, validation_fraction);
  if (validation == size)
    throw InputError(concat(examples->name(), " has ", size, " examples, of which data.",
                            "validation_fraction leaves none to train on"));
  return std::make_unique<OwnDataset>(std::move(examples), nullptr, shape, validation, seed);
}

std::unique_ptr<Dataset> make_own(std::unique_ptr<OwnExamples> examples,
                                  std::unique_ptr<OwnExamples> validation,
                                  const ExampleShape& shape, std::int64_t seed) {
  require_some(*examples);
  require_some(*validation);
  const std::int64_t held_out = validation->size();
  return std::make_unique<OwnDataset>(std::move(examples), std::move(validation), shape, held_out,
                                      seed);
}

namespace {

std::string OwnDataset::digest() const {
  std::string all = concat(source_->name(), ' ', source_->size(), ' ', validation_examples(), '\n');
  add_digests(*source_, all);
  if (held_out_) add_digests(*held_out_, all);
  return trireme::digest(all);
}

MicroBatch OwnDataset::empty(std::int64_t examples) const {
  if (shape_.input == "tokens") return empty_tokens(examples, shape_.inputs);
  if (shape_.input == "images") return empty_images(examples, shape_);
  return {.input = at::empty({examples, shape_.inputs}, at::kFloat),
          .target = at::empty({examples}, at::kLong)};
}

void OwnDataset::fill(std::int64_t place, std::int64_t row, MicroBatch& batch) const {
  const Place found = found_at(place);
  const Example example = found.example();
  at::Tensor input = batch.input[row];
  require_like(found, "input", example.input, input);
  if (shape_.input == "tokens") require_classes(found, "input", example.input);
  input.copy_(example.input);
  put_target(found, example.target, batch.target[row]);
}

void OwnDataset::fill_target(std::int64_t place, std::int64_t row, MicroBatch& batch) const {
  const Place found = found_at(place);
  put_target(found, found.example().target, batch.target[row]);
}

std::int64_t OwnDataset::counted(const Asked& asked,
                                 const std::function<std::vector<std::int64_t>()>& places) const {
  {
    const std::lock_guard alone(mutex_);
    if (last_counted_.first == asked && last_counted_.second > 0) return last_counted_.second;
  }
  std::int64_t sum = 0;  // without the mutex, for examples are the caller's code
  for (const std::int64_t place : places())
    sum += at::sum(at::ne(found_at(place).example().target, kMasked)).item<std::int64_t>();
  const std::lock_guard alone(mutex_);
  last_counted_ = {asked, sum};
  return sum;
}

void OwnDataset::put_target(const Place& place, const at::Tensor& target, at::Tensor row) const {
  require_like(place, "target", target, row);
  require_target(place, target);
  row.copy_(target);
}

void OwnDataset::require_target(const Place& place, const at::Tensor& target) const {
  const at::Tensor is_masked = at::eq(target, kMasked);
  if (!at::any(is_masked).item<bool>()) return require_classes(place, "target", target);
  if (!shape_.takes_masks)
    throw InputError(concat(place.describe(), " has masked targets (", kMasked,
                            "), which the loss of this model does not support: leave them out, or "
                            "say trireme.Chain(..., masked_targets=True) of a loss that passes "
                            "over them"));
  const at::Tensor others = at::masked_select(target, at::logical_not(is_masked));
  if (others.numel() == 0)
    throw InputError(concat(place.describe(), " has only masked targets (", kMasked,
                            "), of which nothing is learned: leave it out"));
  require_classes(place, "target", others);
}

void OwnDataset::require_like(const Place& place, const char* part, const at::Tensor& value,
                              const at::Tensor& row) const {
  const bool is_of_kind =
      row.is_floating_point() ? !value.is_complex() : at::isIntegralType(value.scalar_type(), true);
  if (is_of_kind && value.sizes() == row.sizes()) return;
  throw InputError(concat(place.describe(), " has the ", part, " ", value.scalar_type(), ' ',
                          value.sizes(), ", must be of ",
                          row.is_floating_point() ? "numbers " : "integers ", row.sizes(),
                          " as the model takes ", shape_.input));
}

void OwnDataset::require_classes(const Place& place, const char* part,
                                 const at::Tensor& value) const {
  const auto [least, most] = at::aminmax(value.to(at::kLong));
  for (const std::int64_t one : {least.item<std::int64_t>(), most.item<std::int64_t>()})
    if (one < 0 || one >= shape_.classes)
      throw InputError(concat(place.describe(), " has ", one, " in its ", part, ", must be 0 to ",
                              shape_.classes - 1, ": the model has ", shape_.classes, " classes"));
}

}  // namespace
}  // namespace trireme::data
