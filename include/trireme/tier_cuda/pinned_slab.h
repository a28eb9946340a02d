// Host memory that the copy engines of a GPU reach: one slab, pinned once and carved up by offsets.
//
// LibTorch's own pinned allocator rounds every request up to a power of two and keeps it; a planned
// host budget needs exact bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/tier/places.h"

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace trireme::tier {

class PinnedSlab {
 public:
  /// Pins `size` bytes now. Throws Error if they are not to be had: nothing fails later for want of
  /// them.
  explicit PinnedSlab(Bytes size);

  /// Room for `size` bytes. Throws Error with what was asked, free and all there is.
  std::vector<Places::Piece> reserve(Bytes size);
  void release(std::span<const Places::Piece> pieces) { places_.give_back(pieces); }

  std::byte* at(const Places::Piece& piece) const { return data_.get() + piece.offset; }

  Bytes capacity() const { return places_.capacity(); }
  Bytes used() const { return places_.used(); }
  Bytes peak() const { return places_.peak(); }

 private:
  struct Unpin {
    void operator()(std::byte* data) const;
  };
  Places places_;
  std::unique_ptr<std::byte, Unpin> data_;
};

}  // namespace trireme::tier
