// SPDX-License-Identifier: Apache-2.0
#include "trireme/core/digest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>

namespace trireme {

std::string digest(const void* data, std::size_t size) {
  const XXH128_hash_t hash = XXH3_128bits(data, size);
  XXH128_canonical_t bytes;
  XXH128_canonicalFromHash(&bytes, hash);
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes.digest) {
    text.push_back(kHex[byte >> 4]);
    text.push_back(kHex[byte & 15]);
  }
  return text;
}

std::string digest(std::string_view text) {
  return digest(text.data(), text.size());
}

std::uint64_t mix(std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t d) {
  // SplitMix64's finaliser (Steele et al. 2014), chained over the words.
  std::uint64_t state = 0x9e3779b97f4a7c15ULL;
  for (const std::uint64_t word : {a, b, c, d}) {
    state += word + 0x9e3779b97f4a7c15ULL;
    state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9ULL;
    state = (state ^ (state >> 27)) * 0x94d049bb133111ebULL;
    state ^= state >> 31;
  }
  return state;
}

}  // namespace trireme
