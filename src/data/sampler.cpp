// SPDX-License-Identifier: Apache-2.0
#include "trireme/data/sampler.h"

#include "trireme/core/digest.h"
#include "trireme/core/error.h"

#include <algorithm>
#include <bit>

namespace trireme::data {
namespace {

/// Four rounds make a large network pseudorandom; the smallest, of one bit a side, needs about
/// twice as many before all 24 orders of four examples are equally likely.
constexpr std::uint64_t kRounds = 10;

/// Purpose of a key, so that order and phase of an epoch are independent.
enum Purpose : std::uint64_t { kOrder = 0x6f72646572, kPhase = 0x7068617365 };

}  // namespace

Permutation::Permutation(std::uint64_t size, std::uint64_t key)
    : size_(size),
      key_(key),
      half_bits_(std::max(1, (static_cast<int>(std::bit_width(size - 1)) + 1) / 2)) {
  ensure(size >= 1, "a permutation of at least one element");
}

std::uint64_t Permutation::operator()(std::uint64_t place) const {
  ensure(place < size_, "the place is inside the permutation");
  if (size_ == 1) return 0;
  // The cipher permutes a larger set; iterating it from a place in range always returns to the
  // range, and different places end at different ones.
  std::uint64_t value = encipher(place);
  while (value >= size_) value = encipher(value);
  return value;
}

std::uint64_t Permutation::encipher(std::uint64_t value) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & mask;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    const std::uint64_t mixed = left ^ (mix(key_, round, right) & mask);
    left = right;
    right = mixed;
  }
  return left << half_bits_ | right;
}

Sampler::Sampler(std::int64_t examples, std::int64_t seed)
    : examples_(examples), seed_(static_cast<std::uint64_t>(seed)) {
  ensure(examples >= 1, "an epoch has at least one example");
}

Draw Sampler::draw(std::int64_t place) const {
  ensure(place >= 0, "places are counted from 0");
  const std::int64_t epoch = place / examples_;
  const Permutation order(static_cast<std::uint64_t>(examples_),
                          mix(seed_, kOrder, static_cast<std::uint64_t>(epoch)));
  const std::uint64_t index = order(static_cast<std::uint64_t>(place % examples_));
  return {.epoch = epoch, .index = static_cast<std::int64_t>(index)};
}

Windows::Windows(std::int64_t length, std::int64_t context, std::int64_t seed)
    : context_(context),
      // One window less than fits without a phase, so that every phase has equally many.
      count_(std::max<std::int64_t>(1, length / context - 1)),
      slack_(length - 1 - count_ * context),
      seed_(static_cast<std::uint64_t>(seed)) {
  ensure(context >= 1 && length > context, "the text holds a window");
}

std::int64_t Windows::start(const Draw& draw) const {
  ensure(draw.index >= 0 && draw.index < count_, "the window is one of the epoch's");
  const std::uint64_t random = mix(seed_, kPhase, static_cast<std::uint64_t>(draw.epoch));
  const auto phase = static_cast<std::int64_t>(random % static_cast<std::uint64_t>(slack_ + 1));
  return phase + draw.index * context_;
}

std::int64_t evenly_spaced(std::int64_t place, std::int64_t count, std::int64_t size) {
  ensure(place >= 0 && place < count && size >= 1, "the place is one of the count");
  if (count == 1) return 0;
  // floor(place (size-1) / (count-1)) without the large product.
  const std::int64_t whole = (size - 1) / (count - 1);
  const std::int64_t rest = (size - 1) % (count - 1);
  return place * whole + place * rest / (count - 1);
}

}  // namespace trireme::data
