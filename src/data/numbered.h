// Base of data sets with numbered examples: the last examples are for validation, the others are
// drawn by number.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/error.h"
#include "trireme/data/dataset.h"
#include "trireme/data/sampler.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace trireme::data {

class NumberedExamples : public Dataset {
 public:
  /// The last `validation` of `examples` are for validation.
  NumberedExamples(ExampleShape shape, std::int64_t examples, std::int64_t validation,
                   std::int64_t seed)
      : shape_(std::move(shape)),
        train_(examples - validation),
        validation_(validation),
        sampler_(train_, seed) {}

  std::int64_t train_examples() const override { return train_; }
  std::int64_t validation_examples() const override { return validation_; }

  MicroBatch train(std::int64_t first, std::int64_t count) const override {
    return make(train_places(first, count), &NumberedExamples::fill);
  }

  MicroBatch validation(std::int64_t first, std::int64_t count, std::int64_t total) const override {
    return make(validation_places(first, count, total), &NumberedExamples::fill);
  }

  at::Tensor train_target(std::int64_t first, std::int64_t count) const override {
    return make(train_places(first, count), &NumberedExamples::fill_target).target;
  }

  at::Tensor validation_target(std::int64_t first, std::int64_t count,
                               std::int64_t total) const override {
    return make(validation_places(first, count, total), &NumberedExamples::fill_target).target;
  }

  std::optional<UnigramLoss> unigram_loss() const override { return std::nullopt; }

 protected:
  virtual MicroBatch empty(std::int64_t examples) const = 0;
  virtual void fill(std::int64_t example, std::int64_t row, MicroBatch& batch) const = 0;
  /// Fills the target at least.
  virtual void fill_target(std::int64_t example, std::int64_t row, MicroBatch& batch) const {
    fill(example, row, batch);
  }

  /// Numbers of the drawn examples.
  std::vector<std::int64_t> train_places(std::int64_t first, std::int64_t count) const {
    std::vector<std::int64_t> places;
    for (std::int64_t row = 0; row < count; ++row)
      places.push_back(sampler_.draw(first + row).index);
    return places;
  }

  std::vector<std::int64_t> validation_places(std::int64_t first, std::int64_t count,
                                              std::int64_t total) const {
    ensure(validation_ > 0, "there is a validation part");
    std::vector<std::int64_t> places;
    for (std::int64_t row = 0; row < count; ++row)
      places.push_back(train_ + evenly_spaced(first + row, total, validation_));
    return places;
  }

  ExampleShape shape_;

 private:
  using Fill = void (NumberedExamples::*)(std::int64_t, std::int64_t, MicroBatch&) const;

  MicroBatch make(const std::vector<std::int64_t>& places, Fill fill_one) const {
    ensure(!places.empty(), "a micro-batch has at least one example");
    MicroBatch batch = empty(static_cast<std::int64_t>(places.size()));
    for (std::size_t row = 0; row < places.size(); ++row)
      (this->*fill_one)(places[row], static_cast<std::int64_t>(row), batch);
    return batch;
  }

  std::int64_t train_;
  std::int64_t validation_;
  Sampler sampler_;
};

}  // namespace trireme::data
