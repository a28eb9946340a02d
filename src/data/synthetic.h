// What data sets made up from the seed have in common: numbered examples, the last of them for
// validation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kinds.h"
#include "stream.h"

#include "trireme/core/digest.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/data/sampler.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace trireme::data {

/// Throws InputError when nothing is left to train on.
void require_examples(const config::DataSpec& spec);

class Synthetic : public Dataset {
 public:
  Synthetic(const config::DataSpec& spec, ExampleShape shape, std::int64_t seed)
      : shape_(std::move(shape)),
        seed_(static_cast<std::uint64_t>(seed)),
        validation_(validation_size(spec.examples, spec.validation_fraction)),
        train_(spec.examples - validation_),
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

  std::string digest() const override {
    return trireme::digest(concat("synthetic ", shape_.input, ' ', train_, ' ', validation_, ' ',
                                  shape_.inputs, ' ', shape_.classes, ' ', seed_));
  }

  std::string describe() const override {
    return concat("synthetic ", shape_.input, ": ", train_, " examples to train on, ", validation_,
                  " for validation");
  }

 protected:
  virtual MicroBatch empty(std::int64_t examples) const = 0;
  virtual void fill(std::int64_t example, std::int64_t row, MicroBatch& batch) const = 0;

  Stream rule_stream() const { return Stream(mix(seed_, kRule)); }
  Stream example_stream(std::int64_t example) const {
    return Stream(mix(seed_, kExample, static_cast<std::uint64_t>(example)));
  }

  ExampleShape shape_;
  std::uint64_t seed_;

 private:
  enum Purpose : std::uint64_t { kRule = 1, kExample = 2 };

  template <class ExampleOf>
  MicroBatch make(std::int64_t count, const ExampleOf& example_of) const {
    ensure(count >= 1, "a micro-batch has at least one example");
    MicroBatch batch = empty(count);
    for (std::int64_t row = 0; row < count; ++row) fill(example_of(row), row, batch);
    return batch;
  }

  std::int64_t validation_;
  std::int64_t train_;
  Sampler sampler_;
};

}  // namespace trireme::data
