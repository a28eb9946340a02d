// Reader for settings of Hugging Face's libraries: JSON whose keys are optional, most of which do
// not affect the computation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/io/node.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme::config {

class ForeignConfig {
 public:
  explicit ForeignConfig(const io::Node& node) : node_(node) {}

  /// Nothing for a key that is missing or null.
  std::optional<io::Node> find(std::string_view key) const;
  /// Whether the key is there, even if it is null.
  bool has(std::string_view key) const { return node_.find(key).has_value(); }
  std::optional<int> whole(std::string_view key) const;
  int whole(std::string_view key, int fallback) const { return whole(key).value_or(fallback); }
  /// A whole number that may be 0.
  int count(std::string_view key, int fallback) const;
  double number(std::string_view key, double fallback) const;
  bool flag(std::string_view key, bool fallback) const;
  /// Throws InputError unless the value is one of `known`, the first of which is that of a missing
  /// key.
  void require(std::string_view key, const std::vector<std::string>& known) const;
  void require_whole(std::string_view key, int expected) const;
  /// Throws InputError unless the list has an entry for each of `blocks` blocks.
  void require_entries(std::string_view key, int blocks) const;

  [[noreturn]] void fail(std::string_view key, const std::string& message) const {
    node_.fail_at(key, message);
  }

 private:
  io::Node node_;
};

}  // namespace trireme::config
