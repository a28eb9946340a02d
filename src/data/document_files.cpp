// Document file format, all numbers little-endian:
//
//     byte 0 "trireme-tokens/1" byte 16 uint64 documents, uint64 tokens byte 32 32 zero bytes byte
//     64 uint64 ends [documents]: tokens up to the end of each then uint32 tokens [tokens], the
//     highest bit set if the token is to be learned
//
// SPDX-License-Identifier: Apache-2.0
#include "document_files.h"

#include "file_list.h"

#include "trireme/core/digest.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <utility>

namespace trireme::data {
namespace {

static_assert(std::endian::native == std::endian::little, "document files are mapped as they are");

constexpr std::string_view kMagic = "trireme-tokens/1";
constexpr std::size_t kHeaderBytes = 64;

struct Sizes {
  std::uint64_t documents = 0, tokens = 0;
};

/// Throws InputError unless the file is as long as its header says.
Sizes read_header(const std::string& name, std::span<const std::byte> bytes) {
  if (bytes.size() < kHeaderBytes || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0)
    throw InputError(concat(name, ": is no file of documents, must begin with \"", kMagic,
                            "\" and have a header of ", kHeaderBytes,
                            " bytes; examples/tokens.py documents writes them"));
  Sizes sizes;
  std::memcpy(&sizes, bytes.data() + kMagic.size(), sizeof(sizes));
  // Every document and token takes at least a byte, so the sums below do not overflow.
  const bool can_be = sizes.documents <= bytes.size() && sizes.tokens <= bytes.size();
  const std::uint64_t needed =
      kHeaderBytes + sizes.documents * sizeof(std::uint64_t) + sizes.tokens * sizeof(DocumentToken);
  if (!can_be || needed != bytes.size())
    throw InputError(concat(name, ": has ", bytes.size(), " bytes, which is not what ",
                            sizes.documents, " documents of ", sizes.tokens,
                            " tokens take: is it truncated?"));
  return sizes;
}

void require_ends(const std::string& name, std::span<const std::uint64_t> ends,
                  std::uint64_t tokens) {
  std::uint64_t before = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (ends[i] <= before)
      throw InputError(concat(name, ": document ", i, " ends at token ", ends[i],
                              ", must end after the one before it, at ", before));
    before = ends[i];
  }
  if (before != tokens)
    throw InputError(concat(name, ": its documents end at token ", before, ", must end with its ",
                            tokens, " tokens"));
}

}  // namespace

DocumentFiles::DocumentFiles(const std::vector<std::filesystem::path>& names) {
  for (const auto& name : names) {
    files_.push_back(open(name, size_));
    size_ += static_cast<std::int64_t>(files_.back().ends.size());
  }
}

DocumentFiles::File DocumentFiles::open(const std::filesystem::path& name, std::int64_t first) {
  MappedFile map(name);
  const std::span<const std::byte> bytes = map.bytes();
  const Sizes sizes = read_header(name.string(), bytes);
  // A mapping is page-aligned, so its numbers are aligned.
  const auto* ends = reinterpret_cast<const std::uint64_t*>(bytes.data() + kHeaderBytes);
  const auto* tokens = reinterpret_cast<const DocumentToken*>(ends + sizes.documents);
  File file{.name = name,
            .map = std::move(map),
            .first = first,
            .ends = {ends, sizes.documents},
            .tokens = {tokens, sizes.tokens}};
  require_ends(name.string(), file.ends, sizes.tokens);
  return file;
}

std::span<const DocumentToken> DocumentFiles::tokens(std::int64_t document) const {
  const auto file = holding(files_, document);
  const auto place = static_cast<std::size_t>(document - file->first);
  const std::uint64_t begin = place == 0 ? 0 : file->ends[place - 1];
  return file->tokens.subspan(begin, file->ends[place] - begin);
}

void DocumentFiles::require_tokens_below(std::int64_t vocabulary) const {
  for (const File& file : files_) {
    const auto wrong =
        std::find_if(file.tokens.begin(), file.tokens.end(),
                     [vocabulary](DocumentToken token) { return token.number() >= vocabulary; });
    if (wrong == file.tokens.end()) continue;
    const auto place = static_cast<std::uint64_t>(wrong - file.tokens.begin());
    const auto document = std::upper_bound(file.ends.begin(), file.ends.end(), place);
    throw InputError(concat(file.name.string(), ": a token of document ",
                            document - file.ends.begin(), " is ", wrong->number(),
                            ", must be below the model's vocabulary = ", vocabulary));
  }
}

std::string DocumentFiles::digest() const {
  std::string parts = "documents";
  for (const File& file : files_)  // hashed whole: its tokens were all read anyway
    parts += trireme::digest(file.map.bytes().data(), file.map.bytes().size());
  return trireme::digest(parts);
}

std::string DocumentFiles::describe() const {
  return concat("documents, ", count_of(files_.size(), "file"));
}

}  // namespace trireme::data
