// SPDX-License-Identifier: Apache-2.0
#include "packing.h"

#include "trireme/core/error.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

namespace trireme::data {

void Rows::add(std::span<const std::int64_t> documents) {
  documents_.insert(documents_.end(), documents.begin(), documents.end());
  begins_.push_back(static_cast<std::int64_t>(documents_.size()));
}

Rows packed_rows(std::span<const std::int64_t> documents, std::span<const std::int64_t> lengths,
                 std::int64_t capacity) {
  const auto length_of = [&](std::size_t place) {
    return lengths[static_cast<std::size_t>(documents[place])];
  };
  std::vector<std::size_t> by_length(documents.size());
  std::iota(by_length.begin(), by_length.end(), 0);
  std::stable_sort(by_length.begin(), by_length.end(),
                   [&](std::size_t a, std::size_t b) { return length_of(a) > length_of(b); });
  std::vector<std::vector<std::size_t>> places;         // per row
  std::set<std::pair<std::int64_t, std::size_t>> room;  // free tokens per row
  for (const std::size_t place : by_length) {
    const std::int64_t length = length_of(place);
    ensure(length <= capacity, "a document fits into a row");
    const auto fullest = room.lower_bound({length, 0});
    const bool is_new = fullest == room.end();
    const auto [left, row] = is_new ? std::pair{capacity, places.size()} : *fullest;
    if (is_new) places.emplace_back();
    if (!is_new) room.erase(fullest);
    places[row].push_back(place);
    room.emplace(left - length, row);
  }
  Rows rows;
  std::vector<std::int64_t> of_row;
  for (std::vector<std::size_t>& row : places) {
    std::sort(row.begin(), row.end());
    of_row.clear();
    for (const std::size_t place : row) of_row.push_back(documents[place]);
    rows.add(of_row);
  }
  return rows;
}

}  // namespace trireme::data
