// Text files as one row of bytes, held in memory.
// SPDX-License-Identifier: Apache-2.0
#include "file_list.h"
#include "token_source.h"

#include "trireme/core/digest.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/io/file.h"

#include <algorithm>
#include <utility>

namespace trireme::data {
namespace {

constexpr std::int64_t kBytes = 256;

class TextSource final : public TokenSource {
 public:
  TextSource(std::string text, std::size_t files) : text_(std::move(text)), files_(files) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(text_.size()); }

  void copy(std::int64_t first, std::int64_t count, std::int64_t* out) const override {
    const char* from = text_.data() + first;
    std::transform(from, from + count, out,
                   [](char c) { return static_cast<std::int64_t>(static_cast<unsigned char>(c)); });
  }

  std::string digest() const override { return trireme::digest(text_); }

  std::string describe() const override { return concat("text, ", count_of(files_, "file")); }

 private:
  std::string text_;
  std::size_t files_;
};

}  // namespace

std::unique_ptr<TokenSource> open_text(const std::vector<std::string>& patterns,
                                       std::int64_t vocabulary) {
  if (vocabulary < kBytes)
    throw InputError(concat("data.kind text makes every byte a token: the model's vocabulary is ",
                            vocabulary, ", must be at least ", kBytes));
  const auto files = list_files(patterns);
  std::string text;
  for (const auto& file : files) {
    const std::string content = io::read_file(file);
    if (content.empty()) throw InputError(concat(file.string(), ": the file is empty"));
    text += content;
    if (text.back() != '\n') text.push_back('\n');
  }
  return std::make_unique<TextSource>(std::move(text), files.size());
}

}  // namespace trireme::data
