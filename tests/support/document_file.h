// A file of documents as `data.kind: documents` reads it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/little_endian.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::support {

/// `token`, to be learned.
inline std::uint32_t learned(std::uint32_t token) {
  return token | std::uint32_t{1} << 31;
}

/// The content of a file whose header says `documents` documents that end at `ends`.
inline std::string document_file(const std::vector<std::uint64_t>& ends,
                                 const std::vector<std::uint32_t>& tokens) {
  std::string text = "trireme-tokens/1" + little_endian(ends.size(), 8) +
                     little_endian(tokens.size(), 8) + std::string(32, '\0');
  for (const std::uint64_t end : ends) text += little_endian(end, 8);
  for (const std::uint32_t token : tokens) text += little_endian(token, 4);
  return text;
}

inline std::string document_file(const std::vector<std::vector<std::uint32_t>>& documents) {
  std::vector<std::uint64_t> ends;
  std::vector<std::uint32_t> tokens;
  for (const auto& document : documents) {
    tokens.insert(tokens.end(), document.begin(), document.end());
    ends.push_back(tokens.size());
  }
  return document_file(ends, tokens);
}

}  // namespace trireme::support
