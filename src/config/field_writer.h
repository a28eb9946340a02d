// Writes the fields of sections as YAML, indented by two spaces for every section.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "range.h"

#include "trireme/config/job.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::config {

class FieldWriter {
 public:
  explicit FieldWriter(std::string indent = "") : indent_(std::move(indent)) {}

  void operator()(std::string_view key, int value, Range);
  void operator()(std::string_view key, std::int64_t value, Range);
  void operator()(std::string_view key, double value, Range);
  void operator()(std::string_view key, Seconds value, Range);
  void operator()(std::string_view key, Watts value, Range);
  void operator()(std::string_view key, bool value);
  void operator()(std::string_view key, const std::string& value);
  void operator()(std::string_view key, const std::string& value, const OneOf&);
  void operator()(std::string_view key, int value, const OneOf&);
  void operator()(std::string_view key, const std::vector<std::string>& value);
  void operator()(std::string_view key, const std::vector<std::vector<std::string>>& value);
  void operator()(std::string_view key, const std::vector<int>& value, Range);
  void operator()(std::string_view key, double first, double second, Range);
  void operator()(std::string_view key, const std::optional<bool>& value);
  void operator()(std::string_view key, const std::optional<int>& value, Range);
  void operator()(std::string_view key, const std::optional<double>& value, Range);
  void operator()(std::string_view key, const std::optional<std::vector<int>>& value, Range);
  void operator()(std::string_view key, const std::optional<std::vector<double>>& value, Range);
  void operator()(std::string_view key, const MemorySize& value);
  void operator()(std::string_view key, const std::vector<MemorySize>& value);
  void operator()(std::string_view key, const std::vector<chain::Clock>& value);

  template <class Section>
  void section(std::string_view key, Section& value) {
    FieldWriter writer(indent_ + "  ");
    walk(writer, value);
    line(key, "\n" + writer.text_);
  }

  const std::string& text() const { return text_; }

 private:
  /// "key: value", or "key:" and the lines of a section.
  void line(std::string_view key, std::string_view value);

  std::string indent_;
  std::string text_;
};

}  // namespace trireme::config
