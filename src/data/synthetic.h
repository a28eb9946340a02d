// Base of the synthetic data sets.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kinds.h"
#include "numbered.h"
#include "stream.h"

#include "trireme/core/digest.h"
#include "trireme/core/text.h"

#include <cstdint>
#include <string>

namespace trireme::data {

/// Throws InputError when nothing is left to train on.
void require_examples(const config::DataSpec& spec);

class Synthetic : public NumberedExamples {
 public:
  Synthetic(const config::DataSpec& spec, const ExampleShape& shape, std::int64_t seed)
      : NumberedExamples(shape, spec.examples,
                         validation_size(spec.examples, spec.validation_fraction), seed),
        seed_(static_cast<std::uint64_t>(seed)) {}

  std::string digest() const override {
    return trireme::digest(concat("synthetic ", shape_.input, ' ', train_examples(), ' ',
                                  validation_examples(), ' ', shape_.inputs, ' ', shape_.classes,
                                  ' ', seed_));
  }

  std::string describe() const override {
    return concat("synthetic ", shape_.input, ": ", train_examples(), " examples to train on, ",
                  validation_examples(), " for validation");
  }

 protected:
  Stream rule_stream() const { return Stream(mix(seed_, kRule)); }
  Stream example_stream(std::int64_t example) const {
    return Stream(mix(seed_, kExample, static_cast<std::uint64_t>(example)));
  }

 private:
  enum Purpose : std::uint64_t { kRule = 1, kExample = 2 };

  std::uint64_t seed_;
};

}  // namespace trireme::data
