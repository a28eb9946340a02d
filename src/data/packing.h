// Packing of documents into rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trireme::data {

/// A list of lists, stored flat.
class Rows {
 public:
  std::int64_t size() const { return static_cast<std::int64_t>(begins_.size()) - 1; }
  std::span<const std::int64_t> operator[](std::int64_t row) const {
    const auto place = static_cast<std::size_t>(row);
    const auto begin = static_cast<std::size_t>(begins_[place]);
    return {documents_.data() + begin, static_cast<std::size_t>(begins_[place + 1]) - begin};
  }

  void add(std::span<const std::int64_t> documents);

 private:
  std::vector<std::int64_t> documents_, begins_{0};
};

/// Packs `documents`, each at most `capacity` tokens, into rows of up to `capacity` tokens by
/// best-fit decreasing (Johnson et al. 1974; at most 11/9 of the minimum number of rows, plus a
/// constant): longest first, each into the fullest row with room for it. `lengths` is indexed by
/// document. Documents of a row keep their order.
Rows packed_rows(std::span<const std::int64_t> documents, std::span<const std::int64_t> lengths,
                 std::int64_t capacity);

}  // namespace trireme::data
