// Files of encoded tokens, mapped: of a large corpus only the windows that are used are read.
// SPDX-License-Identifier: Apache-2.0
#include "file_list.h"
#include "mapped_file.h"
#include "sampled_digest.h"
#include "token_source.h"

#include "trireme/core/digest.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/data/sampler.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <utility>

namespace trireme::data {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are mapped as they are");

struct File {
  std::filesystem::path name;
  MappedFile map;
  std::int64_t first;  ///< place of its first token in the row
  std::int64_t count;
};

template <class Token>
class TokenFiles final : public TokenSource {
 public:
  TokenFiles(const std::vector<std::filesystem::path>& names, std::int64_t vocabulary);

  std::int64_t size() const override { return size_; }
  void copy(std::int64_t first, std::int64_t count, std::int64_t* out) const override;
  std::string digest() const override;
  std::string describe() const override {
    return concat("tokens, ", files_.size(), files_.size() == 1 ? " file" : " files");
  }

 private:
  [[noreturn]] void fail_at(const File& file, std::int64_t token) const;

  std::vector<File> files_;
  std::int64_t size_ = 0;
  std::int64_t vocabulary_;
};

}  // namespace

std::unique_ptr<TokenSource> open_token_files(const config::DataSpec& spec,
                                              std::int64_t vocabulary) {
  const auto names = list_files(spec.files);
  if (spec.token_bytes == 2) return std::make_unique<TokenFiles<std::uint16_t>>(names, vocabulary);
  if (spec.token_bytes == 4) return std::make_unique<TokenFiles<std::uint32_t>>(names, vocabulary);
  throw InputError(concat("data.token_bytes is ", spec.token_bytes, ", must be 2 or 4"));
}

namespace {

template <class Token>
TokenFiles<Token>::TokenFiles(const std::vector<std::filesystem::path>& names,
                              std::int64_t vocabulary)
    : vocabulary_(vocabulary) {
  for (const auto& name : names) {
    MappedFile map(name);
    const auto bytes = static_cast<std::int64_t>(map.bytes().size());
    if (bytes % static_cast<std::int64_t>(sizeof(Token)) != 0)
      throw InputError(concat(name.string(), ": the size is ", bytes,
                              " bytes, must be a multiple of data.token_bytes = ", sizeof(Token)));
    const std::int64_t count = bytes / static_cast<std::int64_t>(sizeof(Token));
    files_.push_back({.name = name, .map = std::move(map), .first = size_, .count = count});
    size_ += count;
  }
}

template <class Token>
void TokenFiles<Token>::copy(std::int64_t first, std::int64_t count, std::int64_t* out) const {
  auto file = holding(files_, first);
  while (count > 0) {
    const std::int64_t skip = first - file->first;
    const std::int64_t part = std::min(count, file->count - skip);
    // A mapping starts at a page, so its tokens are aligned.
    const auto* from = reinterpret_cast<const Token*>(file->map.bytes().data()) + skip;
    Token most = 0;
    for (std::int64_t i = 0; i < part; ++i) {
      most = std::max(most, from[i]);
      out[i] = from[i];
    }
    if (most >= vocabulary_) fail_at(*file, skip + (std::find(from, from + part, most) - from));
    first += part;
    out += part;
    count -= part;
    ++file;
  }
}

template <class Token>
void TokenFiles<Token>::fail_at(const File& file, std::int64_t token) const {
  const auto* tokens = reinterpret_cast<const Token*>(file.map.bytes().data());
  throw InputError(concat(file.name.string(), ": the token at byte ",
                          token * static_cast<std::int64_t>(sizeof(Token)), " is ", tokens[token],
                          ", must be below the model's vocabulary = ", vocabulary_,
                          " (or data.token_bytes is not ", sizeof(Token), ")"));
}

template <class Token>
std::string TokenFiles<Token>::digest() const {
  std::string parts = to_text(Bytes(sizeof(Token)));
  for (const File& file : files_) parts += sampled_digest(file.map.bytes());
  return trireme::digest(parts);
}

}  // namespace
}  // namespace trireme::data
