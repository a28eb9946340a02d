// SPDX-License-Identifier: Apache-2.0
#include "trireme/data/unigram.h"

#include "trireme/core/error.h"

#include <cmath>
#include <numeric>

namespace trireme::data {
namespace {

double total(std::span<const std::int64_t> counts) {
  return static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
}

}  // namespace

double unigram_entropy(std::span<const std::int64_t> counts) {
  const double all = total(counts);
  double sum = 0;
  for (const std::int64_t count : counts) {
    if (count == 0) continue;
    const double share = static_cast<double>(count) / all;
    sum -= share * std::log(share);
  }
  return sum;
}

double unigram_cross_entropy(std::span<const std::int64_t> train,
                             std::span<const std::int64_t> validation) {
  ensure(train.size() == validation.size(), "both parts count the same vocabulary");
  const double all = total(validation);
  if (all == 0) return 0;
  const double smoothed = total(train) + static_cast<double>(train.size());
  double sum = 0;
  for (std::size_t token = 0; token < train.size(); ++token) {
    const double weight = static_cast<double>(validation[token]) / all;
    sum -= weight * std::log((static_cast<double>(train[token]) + 1) / smoothed);
  }
  return sum;
}

}  // namespace trireme::data
