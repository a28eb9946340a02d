// Vector indices, and memoized answers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <utility>

namespace trireme::partition {

/// A layer, stage or rank as a vector index.
inline std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

/// Memoizes: the entry for the key, made by `make` the first time.
template <class Map, class Make>
const typename Map::mapped_type& once(Map& answers, const typename Map::key_type& key,
                                      Make&& make) {
  const auto known = answers.find(key);
  return known != answers.end() ? known->second : answers.emplace(key, make()).first->second;
}

}  // namespace trireme::partition
