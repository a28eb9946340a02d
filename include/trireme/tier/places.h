// Allocator of offsets in a slab of bytes, which it does not touch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace trireme::tier {

/// A fixed number of bytes, handed out down to the last one: a request succeeds if that many bytes
/// are free. It gets one piece at a multiple of kAlignment where there is room for it, else one
/// piece at any offset, else several.
class Places {
 public:
  static constexpr std::int64_t kAlignment = 64;
  struct Piece {
    std::int64_t offset = 0;
    std::int64_t size = 0;

    bool operator==(const Piece&) const = default;
  };

  explicit Places(Bytes capacity);

  /// Pieces of `size` bytes in total, ascending; nullopt if fewer are free.
  std::optional<std::vector<Piece>> take(Bytes size);
  void give_back(std::span<const Piece> pieces);

  Bytes capacity() const { return capacity_; }
  Bytes used() const { return used_; }
  Bytes peak() const { return peak_; }

 private:
  using Free = std::map<std::int64_t, std::int64_t>;

  /// First fit for one piece that begins at a multiple of `alignment`.
  std::optional<Piece> first_whole(std::int64_t size, std::int64_t alignment) const;
  /// The fewest free pieces that have `size` bytes in total, ascending.
  std::vector<Piece> largest(std::int64_t size) const;
  void take_out(const Piece& piece);
  void give_back(const Piece& piece);

  Bytes capacity_, used_, peak_;
  Free free_;  ///< offset -> size; adjacent ones are merged
};

}  // namespace trireme::tier
