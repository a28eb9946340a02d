// Factories for the kinds of data sets.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "token_source.h"

#include "trireme/data/dataset.h"

#include <memory>

namespace trireme::data {

/// Windows of a row of tokens. Throws InputError when a part is shorter than one window.
std::unique_ptr<Dataset> make_windows(std::unique_ptr<TokenSource> source,
                                      const ExampleShape& shape, double validation_fraction,
                                      std::int64_t seed);

/// Synthetic examples. Throws InputError when nothing is left to train on.
std::unique_ptr<Dataset> make_synthetic_vectors(const config::DataSpec& spec,
                                                const ExampleShape& shape, std::int64_t seed);
std::unique_ptr<Dataset> make_synthetic_tokens(const config::DataSpec& spec,
                                               const ExampleShape& shape, std::int64_t seed);
std::unique_ptr<Dataset> make_synthetic_images(const config::DataSpec& spec,
                                               const ExampleShape& shape, std::int64_t seed);

/// Images from files. Throws InputError as for `open_dataset`.
std::unique_ptr<Dataset> make_images(const config::DataSpec& spec, const ExampleShape& shape,
                                     std::int64_t seed);

/// Documents from files. Throws InputError as for `open_dataset`.
std::unique_ptr<Dataset> make_documents(const config::DataSpec& spec, const ExampleShape& shape,
                                        std::int64_t seed);

/// Size of the validation part of `size` tokens or examples: the largest integer that is not over
/// the fraction.
std::int64_t validation_size(std::int64_t size, double fraction);

/// Uninitialised int64 [examples, context] for input and target.
MicroBatch empty_tokens(std::int64_t examples, std::int64_t context);
/// Uninitialised float [examples, channels, height, width] and int64 [examples].
MicroBatch empty_images(std::int64_t examples, const ExampleShape& shape);

}  // namespace trireme::data
