// SPDX-License-Identifier: Apache-2.0
#include "field_writer.h"

#include "trireme/core/text.h"

#include <array>
#include <cstdio>

namespace trireme::config {
namespace {

std::vector<std::string> quoted(const std::vector<std::string>& texts);
std::string list_text(const std::vector<std::string>& texts);
std::string list_text(const std::vector<int>& numbers);
std::string size_text(const MemorySize& size);

}  // namespace

void FieldWriter::operator()(std::string_view key, int value, Range) {
  line(key, concat(value));
}

void FieldWriter::operator()(std::string_view key, std::int64_t value, Range) {
  line(key, concat(value));
}

void FieldWriter::operator()(std::string_view key, double value, Range) {
  line(key, to_text(value));
}

void FieldWriter::operator()(std::string_view key, Seconds value, Range) {
  line(key, to_text(value.count()) + "s");
}

void FieldWriter::operator()(std::string_view key, Watts value, Range) {
  line(key, to_text(value.count()));
}

void FieldWriter::operator()(std::string_view key, bool value) {
  line(key, value ? "true" : "false");
}

void FieldWriter::operator()(std::string_view key, const std::optional<bool>& value) {
  if (value) return (*this)(key, *value);
  line(key, "auto");
}

void FieldWriter::operator()(std::string_view key, const std::string& value) {
  line(key, io::yaml_text(value));
}

void FieldWriter::operator()(std::string_view key, const std::string& value, const OneOf&) {
  line(key, io::yaml_text(value));
}

void FieldWriter::operator()(std::string_view key, int value, const OneOf&) {
  line(key, concat(value));
}

void FieldWriter::operator()(std::string_view key, const std::vector<std::string>& value) {
  line(key, list_text(quoted(value)));
}

void FieldWriter::operator()(std::string_view key,
                             const std::vector<std::vector<std::string>>& value) {
  std::vector<std::string> lists;
  for (const std::vector<std::string>& texts : value) lists.push_back(list_text(quoted(texts)));
  line(key, list_text(lists));
}

void FieldWriter::operator()(std::string_view key, const std::vector<int>& value, Range) {
  line(key, list_text(value));
}

void FieldWriter::operator()(std::string_view key, double first, double second, Range) {
  line(key, list_text(std::vector<std::string>{to_text(first), to_text(second)}));
}

void FieldWriter::operator()(std::string_view key, const std::optional<int>& value, Range) {
  line(key, value ? concat(*value) : "auto");
}

void FieldWriter::operator()(std::string_view key, const std::optional<double>& value, Range) {
  line(key, value ? to_text(*value) : "auto");
}

void FieldWriter::operator()(std::string_view key, const std::optional<std::vector<int>>& value,
                             Range) {
  line(key, value ? list_text(*value) : "auto");
}

void FieldWriter::operator()(std::string_view key, const std::optional<std::vector<double>>& value,
                             Range) {
  std::vector<std::string> texts;
  for (const double number : value.value_or(std::vector<double>()))
    texts.push_back(to_text(number));
  line(key, value ? list_text(texts) : "auto");
}

void FieldWriter::operator()(std::string_view key, const MemorySize& value) {
  line(key, size_text(value));
}

void FieldWriter::operator()(std::string_view key, const std::vector<MemorySize>& value) {
  std::vector<std::string> texts;
  for (const MemorySize& size : value) texts.push_back(size_text(size));
  line(key, value.empty() ? "auto" : value.size() == 1 ? texts.front() : list_text(texts));
}

void FieldWriter::operator()(std::string_view key, const std::vector<chain::Clock>& value) {
  line(key, chain::to_yaml(value));
}

void FieldWriter::line(std::string_view key, std::string_view value) {
  const bool is_section = value.starts_with('\n');
  text_ += concat(indent_, key, is_section ? ":" : ": ", value, is_section ? "" : "\n");
}

namespace {

std::vector<std::string> quoted(const std::vector<std::string>& texts) {
  std::vector<std::string> result;
  for (const std::string& text : texts) result.push_back(io::yaml_text(text));
  return result;
}

std::string list_text(const std::vector<std::string>& texts) {
  return concat("[", join(texts, ", "), "]");
}

std::string list_text(const std::vector<int>& numbers) {
  std::vector<std::string> texts;
  for (const int number : numbers) texts.push_back(std::to_string(number));
  return list_text(texts);
}

std::string size_text(const MemorySize& size) {
  if (size.share <= 0) return concat(size.bytes.count());
  // Fifteen digits: a percentage that was read comes back as it was written.
  std::array<char, 32> percent{};
  std::snprintf(percent.data(), percent.size(), "%.15g%%", size.share * 100);
  return percent.data();
}

}  // namespace
}  // namespace trireme::config
