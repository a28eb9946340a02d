// Unigram loss: what a model reaches that knows only token frequencies. A loss below it shows that
// something was learned. In nats per token.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace trireme::data {

/// Entropy of the distribution with these counts; 0 if there are none.
double unigram_entropy(std::span<const std::int64_t> counts);

/// Mean of -log p over the tokens counted in `validation`, where p is the share of each token in
/// `train` after adding one to every count. Both spans have one entry per token of the vocabulary;
/// 0 if `validation` counts nothing.
double unigram_cross_entropy(std::span<const std::int64_t> train,
                             std::span<const std::int64_t> validation);

}  // namespace trireme::data
