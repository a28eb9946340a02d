// Reads the fields of one section where the job names them; the others keep their defaults.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "key_list.h"
#include "range.h"

#include "trireme/config/job.h"
#include "trireme/io/node.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::config {

class FieldReader {
 public:
  using Elsewhere = std::function<std::optional<NeededWord>(const std::string& key)>;

  /// Without a node the section is not in the job: every field keeps its default.
  explicit FieldReader(const std::optional<io::Node>& node);

  void operator()(std::string_view key, int& value, Range range);
  void operator()(std::string_view key, std::int64_t& value, Range range);
  void operator()(std::string_view key, double& value, Range range);
  void operator()(std::string_view key, Seconds& value, Range range);
  void operator()(std::string_view key, Watts& value, Range range);
  void operator()(std::string_view key, bool& value);
  void operator()(std::string_view key, std::string& value);
  void operator()(std::string_view key, std::string& value, const OneOf& choices);
  void operator()(std::string_view key, int& value, const OneOf& choices);
  void operator()(std::string_view key, std::vector<std::string>& value);
  void operator()(std::string_view key, std::vector<std::vector<std::string>>& value);
  void operator()(std::string_view key, std::vector<int>& value, Range range);
  /// `[first, second]`.
  void operator()(std::string_view key, double& first, double& second, Range range);
  /// `auto` or a value.
  void operator()(std::string_view key, std::optional<bool>& value);
  void operator()(std::string_view key, std::optional<int>& value, Range range);
  void operator()(std::string_view key, std::optional<double>& value, Range range);
  void operator()(std::string_view key, std::optional<std::vector<int>>& value, Range range);
  void operator()(std::string_view key, std::optional<std::vector<double>>& value, Range range);
  /// "2GiB" or "80%".
  void operator()(std::string_view key, MemorySize& value);
  /// `auto`, a size, or a list with one per rank.
  void operator()(std::string_view key, std::vector<MemorySize>& value);
  void operator()(std::string_view key, std::vector<chain::Clock>& value);

  template <class Section>
  void section(std::string_view key, Section& value) {
    FieldReader reader(find(key));
    walk(reader, value);
    reader.finish(value);
  }

  std::optional<io::Node> find(std::string_view key);
  /// Throws InputError for a key that the section, as it was read, does not have. `elsewhere` is
  /// asked which other setting would allow the key.
  template <class Section>
  void finish(const Section& section, const Elsewhere& elsewhere = {}) const {
    if (const auto node = unknown()) refuse(*node, needed_for(name_of(*node), section), elsewhere);
  }

 private:
  /// The first value whose key no field has asked for.
  std::optional<io::Node> unknown() const;
  /// The key without its section.
  static std::string name_of(const io::Node& node);
  [[noreturn]] void refuse(const io::Node& node, const std::optional<NeededWord>& needed,
                           const Elsewhere& elsewhere) const;

  std::optional<io::MapReader> map_;
  std::vector<std::string> asked_;
};

}  // namespace trireme::config
