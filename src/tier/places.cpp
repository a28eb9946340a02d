// SPDX-License-Identifier: Apache-2.0
#include "trireme/tier/places.h"

#include "trireme/core/error.h"

#include <algorithm>
#include <iterator>

namespace trireme::tier {

Places::Places(Bytes capacity) : capacity_(capacity.count() / kAlignment * kAlignment) {
  if (capacity_ > Bytes(0)) free_[0] = capacity_.count();
}

std::optional<std::vector<Places::Piece>> Places::take(Bytes size) {
  std::int64_t left = (size.count() + kAlignment - 1) / kAlignment * kAlignment;
  if (Bytes(left) > capacity_ - used_) return std::nullopt;
  used_ += Bytes(left);
  peak_ = std::max(peak_, used_);
  std::vector<Piece> pieces;
  const auto whole = std::find_if(free_.begin(), free_.end(),
                                  [left](const auto& free) { return free.second >= left; });
  if (left > 0 && whole != free_.end()) {
    cut(whole, left, pieces);
    return pieces;
  }
  while (left > 0) {
    cut(free_.begin(), std::min(left, free_.begin()->second), pieces);
    left -= pieces.back().size;
  }
  return pieces;
}

void Places::cut(std::map<std::int64_t, std::int64_t>::iterator free, std::int64_t size,
                 std::vector<Piece>& pieces) {
  const auto [offset, all] = *free;
  free_.erase(free);
  if (all > size) free_[offset + size] = all - size;
  pieces.push_back({offset, size});
}

void Places::give_back(std::span<const Piece> pieces) {
  for (const Piece& piece : pieces) give_back(piece);
}

void Places::give_back(const Piece& piece) {
  used_ -= Bytes(piece.size);
  const auto [at, added] = free_.emplace(piece.offset, piece.size);
  ensure(added, "a place is given back once");
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
