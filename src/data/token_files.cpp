// Memory-mapped files of encoded tokens. They are checked once when opened; after that only the
// windows that are used are read.
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
#include <span>
#include <utility>

namespace trireme::data {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are mapped as they are");

struct File {
  std::filesystem::path name;
  MappedFile map;
  std::int64_t first;  ///< index of its first token in the row
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
    std::string text = concat("tokens, ", count_of(files_.size(), "file"));
    if (vocabulary_ > kMostNumbers)
      text += concat(" of ", sizeof(Token), " bytes per token (data.token_bytes), which name ",
                     kMostNumbers, " of the vocabulary's ", vocabulary_);
    return text;
  }

 private:
  /// Number of values that a token's bytes can represent.
  static constexpr std::int64_t kMostNumbers = std::int64_t{1} << (8 * sizeof(Token));

  static std::span<const Token> tokens_of(const File& file) {
    // A mapping is page-aligned, so its tokens are aligned.
    return {reinterpret_cast<const Token*>(file.map.bytes().data()),
            static_cast<std::size_t>(file.count)};
  }
  /// Throws InputError unless every token is below the vocabulary.
  void require_tokens(const File& file) const;
  [[noreturn]] void fail_at(const File& file, std::int64_t token) const;

  std::vector<File> files_;
  std::int64_t size_ = 0;
  std::int64_t vocabulary_;
};

/// Throws InputError if the file seems to hold tokens of 4 bytes: read in pairs, all are numbers
/// below the vocabulary. A text of 2-byte tokens fails that after a few pairs.
void require_no_wide_tokens(const File& file, std::int64_t vocabulary);

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
    if (sizeof(Token) == 2) require_no_wide_tokens(files_.back(), vocabulary);
    require_tokens(files_.back());
  }
}

template <class Token>
void TokenFiles<Token>::require_tokens(const File& file) const {
  if (vocabulary_ >= kMostNumbers) return;
  constexpr std::size_t kStretch = std::size_t{1} << 22;
  const std::span<const Token> tokens = tokens_of(file);
  for (std::size_t start = 0; start < tokens.size(); start += kStretch) {
    const auto part = tokens.subspan(start, std::min(kStretch, tokens.size() - start));
    Token most = 0;
    for (const Token token : part) most = std::max(most, token);
    if (most >= vocabulary_) {
      const auto wrong = std::find_if(part.begin(), part.end(),
                                      [this](Token token) { return token >= vocabulary_; });
      fail_at(file, static_cast<std::int64_t>(start) + (wrong - part.begin()));
    }
    file.map.let_go();
  }
}

template <class Token>
void TokenFiles<Token>::copy(std::int64_t first, std::int64_t count, std::int64_t* out) const {
  auto file = holding(files_, first);
  while (count > 0) {
    const std::int64_t skip = first - file->first;
    const std::int64_t part = std::min(count, file->count - skip);
    const Token* from = tokens_of(*file).data() + skip;
    Token most = 0;  // the file may have been overwritten since it was opened
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
  throw InputError(concat(file.name.string(), ": token ", token, " (the token at byte ",
                          token * static_cast<std::int64_t>(sizeof(Token)), ") is ",
                          tokens_of(file)[static_cast<std::size_t>(token)],
                          ", must be below the model's vocabulary = ", vocabulary_,
                          " (or data.token_bytes is not ", sizeof(Token), ")"));
}

template <class Token>
std::string TokenFiles<Token>::digest() const {
  std::string parts = to_text(Bytes(sizeof(Token)));
  for (const File& file : files_) parts += sampled_digest(file.map.bytes());
  return trireme::digest(parts);
}

void require_no_wide_tokens(const File& file, std::int64_t vocabulary) {
  constexpr std::size_t kWide = sizeof(std::uint32_t);
  constexpr std::size_t kFewest = 16;  // fewer may pass by chance
  const std::span<const std::byte> bytes = file.map.bytes();
  if (bytes.size() % kWide != 0 || bytes.size() < kFewest * kWide) return;
  const std::span<const std::uint32_t> pairs{reinterpret_cast<const std::uint32_t*>(bytes.data()),
                                             bytes.size() / kWide};
  const auto is_zero = [](std::uint32_t pair) { return pair == 0; };
  const auto is_token = [vocabulary](std::uint32_t pair) { return pair < vocabulary; };
  if (!std::all_of(pairs.begin(), pairs.end(), is_token) ||
      std::all_of(pairs.begin(), pairs.end(), is_zero))
    return;
  throw InputError(concat(file.name.string(),
                          ": seems to hold tokens of 4 bytes, all below the "
                          "model's vocabulary = ",
                          vocabulary,
                          "; with data.token_bytes: 2 every "
                          "second token would be ",
                          vocabulary > (1 << 16) ? "a small number" : "0",
                          ": say data.token_bytes: 4"));
}

}  // namespace
}  // namespace trireme::data
