// Order of training examples. It is a function of (seed, number of the example), so nothing has to
// be stored to resume, and splitting a batch over ranks does not change it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace trireme::data {

/// A bijection on 0..size-1 chosen by a key: a Feistel network over the next power of four (Luby
/// and Rackoff 1988), iterated until the value is in range (Black and Rogaway 2002). No memory; a
/// call takes less than four rounds of the network on average.
class Permutation {
 public:
  /// `size` is at least 1.
  Permutation(std::uint64_t size, std::uint64_t key);

  /// Returns the image of `place`, which must be less than the size.
  std::uint64_t operator()(std::uint64_t place) const;

 private:
  std::uint64_t encipher(std::uint64_t value) const;

  std::uint64_t size_;
  std::uint64_t key_;
  int half_bits_;
};

/// An example of one epoch.
struct Draw {
  std::int64_t epoch = 0;
  std::int64_t index = 0;  ///< within the epoch's examples

  bool operator==(const Draw&) const = default;
};

/// The endless sequence of training examples: every epoch holds each example once, in its own
/// order.
class Sampler {
 public:
  /// `examples` per epoch, at least 1.
  Sampler(std::int64_t examples, std::int64_t seed);

  /// The example at `place` = step x batch + position in the batch, from 0.
  Draw draw(std::int64_t place) const;

 private:
  std::int64_t examples_;
  std::uint64_t seed_;
};

/// How an epoch cuts `length` tokens into windows of `context` + 1 tokens at stride `context`: the
/// last token of a window is the first of the next, so no token is a target twice. The windows
/// start at an offset (phase) that changes with the epoch, so that over the epochs every token,
/// including the last, is seen at varying positions.
class Windows {
 public:
  /// `length` is at least `context` + 1.
  Windows(std::int64_t length, std::int64_t context, std::int64_t seed);

  /// Windows per epoch, the same for all.
  std::int64_t count() const { return count_; }

  /// First token of a window.
  std::int64_t start(const Draw& draw) const;

 private:
  std::int64_t context_;
  std::int64_t count_;
  std::int64_t slack_;  ///< largest phase
  std::uint64_t seed_;
};

/// The `place`-th of `count` evenly spaced numbers of 0..size-1, the first 0 and the last size-1
/// (0 alone for a count of 1). All different if count <= size.
std::int64_t evenly_spaced(std::int64_t place, std::int64_t count, std::int64_t size);

}  // namespace trireme::data
