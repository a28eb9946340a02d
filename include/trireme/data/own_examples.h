// Data of the calling program, which hands over one example at a time, by number.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/data/dataset.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

namespace trireme::data {

/// One example. tokens: int64 [T] and int64 [T]; vectors: float [N] and an int64 number; images:
/// float [C, H, W] and an int64 number.
struct Example {
  at::Tensor input, target;
};

/// Thread-safe; the same number always gives the same example.
class OwnExamples {
 public:
  virtual ~OwnExamples() = default;
  virtual std::int64_t size() const = 0;
  /// Example 0..size()-1, of any integer and floating types.
  virtual Example example(std::int64_t number) const = 0;
  /// For messages: "my_data.Corpus".
  virtual std::string name() const = 0;
};

/// A data set of these examples. A fixed random choice of `validation_fraction` of them is for
/// validation; the others are drawn as those of every other data set. Its digest is of evenly
/// spaced examples. Throws InputError, now or when it is drawn, that names an example that does not
/// have the shape of the chain's, or a value that is not one of its classes.
std::unique_ptr<Dataset> make_own(std::unique_ptr<OwnExamples> examples, const ExampleShape& shape,
                                  double validation_fraction, std::int64_t seed);
/// The same with a validation set of its own: none of `examples` are for validation.
std::unique_ptr<Dataset> make_own(std::unique_ptr<OwnExamples> examples,
                                  std::unique_ptr<OwnExamples> validation,
                                  const ExampleShape& shape, std::int64_t seed);

}  // namespace trireme::data
