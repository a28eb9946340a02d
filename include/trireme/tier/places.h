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

/// A fixed number of bytes in pieces that begin at multiples of kAlignment. What is asked for lies
/// in one piece where there is one, else in several, so room is never lost to gaps.
class Places {
 public:
  static constexpr std::int64_t kAlignment = 64;
  struct Piece {
    std::int64_t offset = 0;
    std::int64_t size = 0;

    bool operator==(const Piece&) const = default;
  };

  /// Rounded down to kAlignment.
  explicit Places(Bytes capacity);

  /// Pieces of together `size` bytes, rounded up to kAlignment; nothing if there is no room.
  std::optional<std::vector<Piece>> take(Bytes size);
  void give_back(std::span<const Piece> pieces);

  Bytes capacity() const { return capacity_; }
  Bytes used() const { return used_; }
  Bytes peak() const { return peak_; }

 private:
  void cut(std::map<std::int64_t, std::int64_t>::iterator free, std::int64_t size,
           std::vector<Piece>& pieces);
  void give_back(const Piece& piece);

  Bytes capacity_, used_, peak_;
  std::map<std::int64_t, std::int64_t> free_;  ///< offset -> size; no two touch
};

}  // namespace trireme::tier
