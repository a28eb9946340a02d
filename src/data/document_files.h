// Memory-mapped document files (SFT): texts that mark which of their tokens are learned.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mapped_file.h"

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace trireme::data {

/// A token as stored in a file.
class DocumentToken {
 public:
  std::int64_t number() const { return bits_ & ~kLearned; }
  bool is_learned() const { return (bits_ & kLearned) != 0; }

 private:
  static constexpr std::uint32_t kLearned = std::uint32_t{1} << 31;

  std::uint32_t bits_;
};

class DocumentFiles {
 public:
  /// Reads the documents' ends. Throws InputError that names the file: not of this format,
  /// truncated, damaged.
  explicit DocumentFiles(const std::vector<std::filesystem::path>& names);

  /// Number of documents in all files.
  std::int64_t size() const { return size_; }
  std::span<const DocumentToken> tokens(std::int64_t document) const;

  /// Throws InputError unless every token is below `vocabulary`; reads all tokens.
  void require_tokens_below(std::int64_t vocabulary) const;

  std::string digest() const;
  /// "documents, 2 files".
  std::string describe() const;

 private:
  struct File {
    std::filesystem::path name;
    MappedFile map;
    std::int64_t first;  ///< index of its first document
    std::span<const std::uint64_t> ends;
    std::span<const DocumentToken> tokens;
  };

  static File open(const std::filesystem::path& name, std::int64_t first);

  std::vector<File> files_;
  std::int64_t size_ = 0;
};

}  // namespace trireme::data
