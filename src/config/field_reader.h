// Reads the fields of one section where the job names them; the others keep their defaults.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "range.h"

#include "trireme/config/job.h"
#include "trireme/io/node.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::config {

class FieldReader {
 public:
  /// Without a node the section is not in the job: every field keeps its default.
  explicit FieldReader(const std::optional<io::Node>& node);

  void operator()(std::string_view key, int& value, Range range);
  void operator()(std::string_view key, std::int64_t& value, Range range);
  void operator()(std::string_view key, double& value, Range range);
  void operator()(std::string_view key, Seconds& value, Range range);
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
  void operator()(std::string_view key, std::optional<int>& value, Range range);
  void operator()(std::string_view key, std::optional<std::vector<int>>& value, Range range);
  void operator()(std::string_view key, std::optional<std::vector<double>>& value, Range range);
  /// "2GiB" or "80%".
  void operator()(std::string_view key, MemorySize& value);
  /// `auto`, a size, or a list with one per rank.
  void operator()(std::string_view key, std::vector<MemorySize>& value);

  template <class Section>
  void section(std::string_view key, Section& value) {
    FieldReader reader(find(key));
    walk(reader, value);
    reader.finish();
  }

  std::optional<io::Node> find(std::string_view key);
  /// Throws InputError for a key that is none of this section.
  void finish() const;

 private:
  std::optional<io::MapReader> map_;
};

}  // namespace trireme::config
