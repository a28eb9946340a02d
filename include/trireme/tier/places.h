// Who has which bytes of a slab: room that is handed out by offsets, without touching the bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace trireme::tier {

/// A fixed number of bytes, handed out to the last one: as long as there are so many free bytes,
/// any number of them can be had. What is asked for lies in one piece that begins at a multiple of
/// kAlignment where there is room for it, else in one that begins anywhere, else in several.
class Places {
 public:
  static constexpr std::int64_t kAlignment = 64;
  struct Piece {
    std::int64_t offset = 0;
    std::int64_t size = 0;

    bool operator==(const Piece&) const = default;
  };

  explicit Places(Bytes capacity);

  /// Pieces of together `size` bytes, ascending; nothing if less is free.
  std::optional<std::vector<Piece>> take(Bytes size);
  void give_back(std::span<const Piece> pieces);

  Bytes capacity() const { return capacity_; }
  Bytes used() const { return used_; }
  Bytes peak() const { return peak_; }

 private:
  using Free = std::map<std::int64_t, std::int64_t>;

  /// Where the first piece that begins at a multiple of `alignment` could lie.
  std::optional<Piece> first_whole(std::int64_t size, std::int64_t alignment) const;
  /// As few free pieces as can be that have `size` bytes together, ascending.
  std::vector<Piece> largest(std::int64_t size) const;
  void take_out(const Piece& piece);
  void give_back(const Piece& piece);

  Bytes capacity_, used_, peak_;
  Free free_;  ///< offset -> size; no two touch
};

}  // namespace trireme::tier
