// SPDX-License-Identifier: Apache-2.0
#include "field_reader.h"

#include "trireme/core/text.h"

#include <charconv>

namespace trireme::config {
namespace {

bool is_auto(const io::Node& node);
std::int64_t integer(const io::Node& node, Range range);
std::vector<int> integers(const io::Node& node, Range range);
MemorySize memory_size(const io::Node& node);
/// The share that "80%" stands for; nothing unless it is more than 0 and at most 1.
std::optional<double> parse_share(std::string_view text);

}  // namespace

FieldReader::FieldReader(const std::optional<io::Node>& node) {
  if (node) map_.emplace(*node);
}

std::optional<io::Node> FieldReader::find(std::string_view key) {
  return map_ ? map_->optional(key) : std::nullopt;
}

void FieldReader::finish() const {
  if (map_) map_->finish();
}

void FieldReader::operator()(std::string_view key, int& value, Range range) {
  if (const auto node = find(key)) value = static_cast<int>(integer(*node, range));
}

void FieldReader::operator()(std::string_view key, std::int64_t& value, Range range) {
  if (const auto node = find(key)) value = integer(*node, range);
}

void FieldReader::operator()(std::string_view key, double& value, Range range) {
  if (const auto node = find(key)) value = node->number(range.least, range.most);
}

void FieldReader::operator()(std::string_view key, Seconds& value, Range range) {
  const auto node = find(key);
  if (!node) return;
  value = node->seconds();
  if (value < Seconds(range.least) || value > Seconds(range.most))
    node->fail(concat("is ", node->found(), ", must be from ", to_text(Seconds(range.least)),
                      " to ", to_text(range.most), " s"));
}

void FieldReader::operator()(std::string_view key, bool& value) {
  if (const auto node = find(key)) value = node->boolean();
}

void FieldReader::operator()(std::string_view key, std::string& value) {
  if (const auto node = find(key)) value = node->text();
}

void FieldReader::operator()(std::string_view key, std::string& value, const OneOf& choices) {
  if (const auto node = find(key)) value = node->choice(choices);
}

void FieldReader::operator()(std::string_view key, int& value, const OneOf& choices) {
  if (const auto node = find(key)) value = std::stoi(node->choice(choices));
}

void FieldReader::operator()(std::string_view key, std::vector<std::string>& value) {
  const auto node = find(key);
  if (!node) return;
  value.clear();
  for (const io::Node& element : node->list()) value.push_back(element.text());
}

void FieldReader::operator()(std::string_view key, std::vector<std::vector<std::string>>& value) {
  const auto node = find(key);
  if (!node) return;
  value.clear();
  for (const io::Node& element : node->list()) {
    std::vector<std::string>& texts = value.emplace_back();
    for (const io::Node& text : element.list()) texts.push_back(text.text());
  }
}

void FieldReader::operator()(std::string_view key, std::vector<int>& value, Range range) {
  if (const auto node = find(key)) value = integers(*node, range);
}

void FieldReader::operator()(std::string_view key, double& first, double& second, Range range) {
  const auto node = find(key);
  if (!node) return;
  const std::vector<io::Node> list = node->list();
  if (list.size() != 2)
    node->fail(concat("has ", list.size(), " entries, must have 2: [", to_text(first), ", ",
                      to_text(second), "]"));
  first = list[0].number(range.least, range.most);
  second = list[1].number(range.least, range.most);
}

void FieldReader::operator()(std::string_view key, std::optional<int>& value, Range range) {
  const auto node = find(key);
  if (!node) return;
  value.reset();
  if (!is_auto(*node)) value = static_cast<int>(integer(*node, range));
}

void FieldReader::operator()(std::string_view key, std::optional<std::vector<int>>& value,
                             Range range) {
  const auto node = find(key);
  if (!node) return;
  value.reset();
  if (!is_auto(*node)) value = integers(*node, range);
}

void FieldReader::operator()(std::string_view key, std::optional<std::vector<double>>& value,
                             Range range) {
  const auto node = find(key);
  if (!node) return;
  value.reset();
  if (is_auto(*node)) return;
  value.emplace();
  for (const io::Node& element : node->list())
    value->push_back(element.number(range.least, range.most));
}

void FieldReader::operator()(std::string_view key, MemorySize& value) {
  if (const auto node = find(key)) value = memory_size(*node);
}

void FieldReader::operator()(std::string_view key, std::vector<MemorySize>& value) {
  const auto node = find(key);
  if (!node) return;
  value.clear();
  if (is_auto(*node)) return;
  if (node->kind() != io::Node::Kind::kList) {
    value.push_back(memory_size(*node));
    return;
  }
  for (const io::Node& element : node->list()) value.push_back(memory_size(element));
  if (value.empty()) node->fail("is an empty list, must be auto, a size or a size per rank");
}

namespace {

bool is_auto(const io::Node& node) {
  return node.kind() == io::Node::Kind::kScalar && node.text() == "auto";
}

std::int64_t integer(const io::Node& node, Range range) {
  return node.integer(static_cast<std::int64_t>(range.least),
                      static_cast<std::int64_t>(range.most));
}

std::vector<int> integers(const io::Node& node, Range range) {
  std::vector<int> values;
  for (const io::Node& element : node.list())
    values.push_back(static_cast<int>(integer(element, range)));
  return values;
}

MemorySize memory_size(const io::Node& node) {
  const bool is_scalar = node.kind() == io::Node::Kind::kScalar;
  const std::optional<double> share = is_scalar ? parse_share(node.text()) : std::nullopt;
  if (share) return {.bytes = Bytes(0), .share = *share};
  const std::optional<Bytes> size = is_scalar ? parse_bytes(node.text()) : std::nullopt;
  if (!size) node.fail(concat("is ", node.found(), ", must be a size such as 2GiB, 4096 or 80%"));
  return {.bytes = *size};
}

std::optional<double> parse_share(std::string_view text) {
  double percent = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, failure] = std::from_chars(text.data(), end, percent);
  const bool is_percent = failure == std::errc{} && std::string_view(rest, end) == "%";
  if (!is_percent || !(percent > 0 && percent <= 100)) return std::nullopt;
  return percent / 100;
}

}  // namespace
}  // namespace trireme::config
