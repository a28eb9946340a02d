// SPDX-License-Identifier: Apache-2.0
#include "token_source.h"

#include "trireme/data/sampler.h"

#include <algorithm>

namespace trireme::data {
namespace {

constexpr std::int64_t kStretch = 1 << 16;

}  // namespace

std::vector<std::int64_t> count_tokens(const TokenSource& source, std::int64_t first,
                                       std::int64_t length, std::int64_t vocabulary,
                                       std::int64_t most) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(vocabulary));
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(kStretch));
  const bool all = length <= most;
  const std::int64_t stretches =
      all ? (length + kStretch - 1) / kStretch : std::max<std::int64_t>(1, most / kStretch);
  for (std::int64_t s = 0; s < stretches; ++s) {
    const std::int64_t start =
        all ? s * kStretch : evenly_spaced(s, stretches, length - kStretch + 1);
    const std::int64_t count = std::min(kStretch, length - start);
    source.copy(first + start, count, tokens.data());
    for (std::int64_t i = 0; i < count; ++i)
      ++counts[static_cast<std::size_t>(tokens[static_cast<std::size_t>(i)])];
  }
  return counts;
}

}  // namespace trireme::data
