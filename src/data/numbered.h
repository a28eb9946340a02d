// What data sets of numbered examples have in common: the last examples are for validation, the
// others are drawn by number.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/error.h"
#include "trireme/data/dataset.h"
#include "trireme/data/sampler.h"

#include <cstdint>
#include <optional>
#include <utility>

namespace trireme::data {

class NumberedExamples : public Dataset {
 public:
  /// Of `examples`, the last `validation` are for validation.
  NumberedExamples(ExampleShape shape, std::int64_t examples, std::int64_t validation,
                   std::int64_t seed)
      : shape_(std::move(shape)),
        train_(examples - validation),
        validation_(validation),
        sampler_(train_, seed) {}

  std::int64_t train_examples() const override { return train_; }
  std::int64_t validation_examples() const override { return validation_; }

  MicroBatch train(std::int64_t first, std::int64_t count) const override {
    return make(count, [&](std::int64_t row) { return sampler_.draw(first + row).index; });
  }

  MicroBatch validation(std::int64_t first, std::int64_t count, std::int64_t total) const override {
    ensure(validation_ > 0, "there is a validation part");
    return make(count, [&](std::int64_t row) {
      return train_ + evenly_spaced(first + row, total, validation_);
    });
  }

  std::optional<UnigramLoss> unigram_loss() const override { return std::nullopt; }

 protected:
  virtual MicroBatch empty(std::int64_t examples) const = 0;
  virtual void fill(std::int64_t example, std::int64_t row, MicroBatch& batch) const = 0;

  ExampleShape shape_;

 private:
  template <class ExampleOf>
  MicroBatch make(std::int64_t count, const ExampleOf& example_of) const {
    ensure(count >= 1, "a micro-batch has at least one example");
    MicroBatch batch = empty(count);
    for (std::int64_t row = 0; row < count; ++row) fill(example_of(row), row, batch);
    return batch;
  }

  std::int64_t train_;
  std::int64_t validation_;
  Sampler sampler_;
};

}  // namespace trireme::data
