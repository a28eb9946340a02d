// SPDX-License-Identifier: Apache-2.0
#include "sampled_digest.h"

#include "trireme/core/digest.h"
#include "trireme/core/text.h"
#include "trireme/data/sampler.h"

namespace trireme::data {

std::string sampled_digest(std::span<const std::byte> bytes) {
  constexpr std::int64_t kPage = 4096;
  constexpr std::int64_t kPages = 256;
  const auto size = static_cast<std::int64_t>(bytes.size());
  if (size <= kPage * kPages) return concat(size, trireme::digest(bytes.data(), bytes.size()));
  std::string parts = concat(size);
  for (std::int64_t page = 0; page < kPages; ++page) {
    const std::int64_t start = evenly_spaced(page, kPages, size - kPage + 1);
    parts += trireme::digest(bytes.data() + start, kPage);
  }
  return parts;
}

}  // namespace trireme::data
