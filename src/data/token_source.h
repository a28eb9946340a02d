// Interface to a long row of tokens with random access, independent of how it is stored.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace trireme::data {

class TokenSource {
 public:
  virtual ~TokenSource() = default;

  virtual std::int64_t size() const = 0;
  /// Copies tokens first..first+count-1, widened. Throws InputError, naming file and byte, for a
  /// token that is not in the vocabulary.
  virtual void copy(std::int64_t first, std::int64_t count, std::int64_t* out) const = 0;
  virtual std::string digest() const = 0;
  /// "text, 14 files".
  virtual std::string describe() const = 0;
};

/// Both throw InputError as for `open_dataset`.
std::unique_ptr<TokenSource> open_text(const std::vector<std::string>& patterns,
                                       std::int64_t vocabulary);
std::unique_ptr<TokenSource> open_token_files(const config::DataSpec& spec,
                                              std::int64_t vocabulary);

/// How often each token of the vocabulary occurs among first..first+length-1; if there are more
/// than `most` tokens, in evenly spaced stretches of `most` tokens in total.
std::vector<std::int64_t> count_tokens(const TokenSource& source, std::int64_t first,
                                       std::int64_t length, std::int64_t vocabulary,
                                       std::int64_t most = std::int64_t{1} << 26);

}  // namespace trireme::data
