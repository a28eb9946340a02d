// SPDX-License-Identifier: Apache-2.0
#include "kinds.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/data/sampler.h"
#include "trireme/data/unigram.h"

#include <ATen/ATen.h>

#include <string_view>
#include <utility>

namespace trireme::data {
namespace {

/// T = context, B = examples of a micro-batch.
class WindowsDataset final : public Dataset {
 public:
  WindowsDataset(std::unique_ptr<TokenSource> source, const ExampleShape& shape,
                 std::int64_t validation, std::int64_t seed)
      : source_(std::move(source)),
        context_(shape.inputs),
        vocabulary_(shape.classes),
        validation_length_(validation),
        windows_(train_length(), context_, seed),
        sampler_(windows_.count(), seed) {}

  std::int64_t train_examples() const override { return windows_.count(); }
  std::int64_t validation_examples() const override {
    return validation_length_ == 0 ? 0 : (validation_length_ - 1) / context_;
  }

  MicroBatch train(std::int64_t first, std::int64_t count) const override {
    MicroBatch batch = empty_tokens(count, context_);
    for (std::int64_t row = 0; row < count; ++row)
      copy_window(windows_.start(sampler_.draw(first + row)), row, batch);
    return batch;
  }

  MicroBatch validation(std::int64_t first, std::int64_t count, std::int64_t total) const override {
    ensure(validation_length_ > 0, "there is a validation part");
    MicroBatch batch = empty_tokens(count, context_);
    const std::int64_t starts = validation_length_ - context_;
    for (std::int64_t row = 0; row < count; ++row)
      copy_window(train_length() + evenly_spaced(first + row, total, starts), row, batch);
    return batch;
  }

  std::optional<UnigramLoss> unigram_loss() const override;
  std::string digest() const override { return source_->digest(); }
  std::string describe() const override;

 private:
  std::int64_t train_length() const { return source_->size() - validation_length_; }
  void copy_window(std::int64_t start, std::int64_t row, MicroBatch& batch) const;

  std::unique_ptr<TokenSource> source_;
  std::int64_t context_;
  std::int64_t vocabulary_;
  std::int64_t validation_length_;
  Windows windows_;
  Sampler sampler_;
};

void require_window(std::int64_t length, std::int64_t context, std::string_view what);

}  // namespace

std::unique_ptr<Dataset> make_windows(std::unique_ptr<TokenSource> source,
                                      const ExampleShape& shape, double validation_fraction,
                                      std::int64_t seed) {
  ensure(shape.inputs >= 1 && shape.classes >= 1, "the chain's context and vocabulary are known");
  const std::int64_t validation = validation_size(source->size(), validation_fraction);
  const std::string what = source->describe();
  require_window(source->size() - validation, shape.inputs, what + ": the train part");
  if (validation_fraction > 0)
    require_window(validation, shape.inputs,
                   concat(what, ": the validation part (data.validation_fraction = ",
                          to_text(validation_fraction), ", 0 for none)"));
  return std::make_unique<WindowsDataset>(std::move(source), shape, validation, seed);
}

std::int64_t validation_size(std::int64_t size, double fraction) {
  return static_cast<std::int64_t>(static_cast<double>(size) * fraction);
}

MicroBatch empty_tokens(std::int64_t examples, std::int64_t context) {
  ensure(examples >= 1, "a micro-batch has at least one example");
  return {.input = at::empty({examples, context}, at::kLong),
          .target = at::empty({examples, context}, at::kLong)};
}

namespace {

std::optional<UnigramLoss> WindowsDataset::unigram_loss() const {
  if (validation_length_ == 0) return std::nullopt;
  const auto train = count_tokens(*source_, 0, train_length(), vocabulary_);
  const auto validation = count_tokens(*source_, train_length(), validation_length_, vocabulary_);
  return UnigramLoss{.entropy = unigram_entropy(validation),
                     .cross_entropy = unigram_cross_entropy(train, validation)};
}

std::string WindowsDataset::describe() const {
  const std::string validation = validation_length_ == 0
                                     ? "none for validation"
                                     : concat(validation_length_, " for validation");
  return concat(source_->describe(), ": ", train_length(), " tokens to train on, ", validation);
}

void WindowsDataset::copy_window(std::int64_t start, std::int64_t row, MicroBatch& batch) const {
  const std::int64_t offset = row * context_;
  source_->copy(start, context_, batch.input.data_ptr<std::int64_t>() + offset);
  source_->copy(start + 1, context_, batch.target.data_ptr<std::int64_t>() + offset);
}

void require_window(std::int64_t length, std::int64_t context, std::string_view what) {
  if (length > context) return;
  throw InputError(concat(what, " has ", length, " tokens, must have at least ", context + 1,
                          " (the model's context + 1)"));
}

}  // namespace
}  // namespace trireme::data
