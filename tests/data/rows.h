// Micro-batches as plain rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/data/dataset.h"

#include <ATen/ATen.h>

#include <string>
#include <utility>
#include <vector>

namespace trireme::data {

/// One example of tokens: input and target.
using Row = std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>;

inline std::vector<std::int64_t> values(const at::Tensor& tensor) {
  const auto* data = tensor.data_ptr<std::int64_t>();
  return {data, data + tensor.numel()};
}

inline std::vector<Row> rows(const MicroBatch& batch) {
  std::vector<Row> all;
  for (std::int64_t row = 0; row < batch.input.size(0); ++row)
    all.emplace_back(values(batch.input[row]), values(batch.target[row]));
  return all;
}

/// The tokens of a window, T + 1 of them, as text.
inline std::string window(const Row& row) {
  std::string text;
  for (const std::int64_t token : row.first) text.push_back(static_cast<char>(token));
  text.push_back(static_cast<char>(row.second.back()));
  return text;
}

}  // namespace trireme::data
