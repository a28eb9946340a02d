// SPDX-License-Identifier: Apache-2.0
#include "trireme/tier/places.h"

#include "trireme/core/error.h"

#include <algorithm>
#include <iterator>

namespace trireme::tier {

Places::Places(Bytes capacity) : capacity_(capacity) {
  if (capacity_ > Bytes(0)) free_[0] = capacity_.count();
}

std::optional<std::vector<Places::Piece>> Places::take(Bytes size) {
  if (size > capacity_ - used_) return std::nullopt;
  used_ += size;
  peak_ = std::max(peak_, used_);
  std::vector<Piece> pieces;
  if (size == Bytes(0)) return pieces;
  std::optional<Piece> whole = first_whole(size.count(), kAlignment);
  if (!whole) whole = first_whole(size.count(), 1);
  pieces = whole ? std::vector{*whole} : largest(size.count());
  for (const Piece& piece : pieces) take_out(piece);
  return pieces;
}

std::optional<Places::Piece> Places::first_whole(std::int64_t size, std::int64_t alignment) const {
  for (const auto& [offset, free] : free_) {
    const std::int64_t gap = (alignment - offset % alignment) % alignment;
    if (free - gap >= size) return Piece{offset + gap, size};
  }
  return std::nullopt;
}

std::vector<Places::Piece> Places::largest(std::int64_t size) const {
  std::vector<Piece> pieces;
  for (const auto& [offset, free] : free_) pieces.push_back({offset, free});
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const Piece& a, const Piece& b) { return a.size > b.size; });
  auto end = pieces.begin();
  for (; size > 0; ++end) {
    end->size = std::min(end->size, size);
    size -= end->size;
  }
  pieces.erase(end, pieces.end());
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return a.offset < b.offset; });
  return pieces;
}

void Places::take_out(const Piece& piece) {
  const auto free = std::prev(free_.upper_bound(piece.offset));
  const auto [offset, size] = *free;
  const std::int64_t before = piece.offset - offset, after = size - before - piece.size;
  if (before > 0)
    free->second = before;
  else
    free_.erase(free);
  if (after > 0) free_[piece.offset + piece.size] = after;
}

void Places::give_back(std::span<const Piece> pieces) {
  for (const Piece& piece : pieces) give_back(piece);
}

void Places::give_back(const Piece& piece) {
  used_ -= Bytes(piece.size);
  const auto [at, added] = free_.emplace(piece.offset, piece.size);
  ensure(added, "a piece is given back once");
  if (const auto next = std::next(at);
      next != free_.end() && next->first == at->first + at->second) {
    at->second += next->second;
    free_.erase(next);
  }
  if (at == free_.begin()) return;
  const auto before = std::prev(at);
  if (before->first + before->second != at->first) return;
  before->second += at->second;
  free_.erase(at);
}

}  // namespace trireme::tier
