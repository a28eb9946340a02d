// SPDX-License-Identifier: Apache-2.0
#include "field_reader.h"

#include "other_names.h"

#include "trireme/core/text.h"
#include "trireme/io/sizes.h"

#include <algorithm>
#include <charconv>

namespace trireme::config {
namespace {

bool is_auto(const io::Node& node);
std::int64_t integer(const io::Node& node, Range range);
std::vector<int> integers(const io::Node& node, Range range);
MemorySize memory_size(const io::Node& node);
/// One of `choices`; for a word of other programs the error suggests ours.
std::string choice(const io::Node& node, const OneOf& choices);
/// Throws InputError: the section has this key only with another value of `needed.key`.
[[noreturn]] void refuse_without(const io::Node& node, const NeededWord& needed);
/// The share that "80%" stands for; nothing unless it is more than 0 and at most 1.
std::optional<double> parse_share(std::string_view text);

}  // namespace

FieldReader::FieldReader(const std::optional<io::Node>& node) {
  if (node) map_.emplace(*node);
}

std::optional<io::Node> FieldReader::find(std::string_view key) {
  asked_.emplace_back(key);
  return map_ ? map_->optional(key) : std::nullopt;
}

std::optional<io::Node> FieldReader::unknown() const {
  if (!map_ || map_->node().kind() == io::Node::Kind::kNull) return std::nullopt;
  for (const auto& [key, node] : map_->node().entries())
    if (std::find(asked_.begin(), asked_.end(), key) == asked_.end()) return node;
  return std::nullopt;
}

std::string FieldReader::name_of(const io::Node& node) {
  return node.key().substr(node.key().rfind('.') + 1);
}

void FieldReader::refuse(const io::Node& node, const std::optional<NeededWord>& needed,
                         const Elsewhere& elsewhere) const {
  const std::string name = name_of(node);
  if (needed) refuse_without(node, *needed);
  const std::string meant = key_meant_by(name), holder = map_->node().key();
  const std::size_t dot = meant.rfind('.');
  const bool is_here = meant.substr(0, dot) == holder;
  const bool is_known =
      std::find(asked_.begin(), asked_.end(), meant.substr(dot + 1)) != asked_.end();
  // A model of this kind may have no such key.
  if (!meant.empty() && (!is_here || is_known))
    node.fail(concat("is not a key here (did you mean '", meant, "'?)", remark_on(meant)));
  if (elsewhere && nearest_word(name, asked_).empty())
    if (const auto there = elsewhere(name)) refuse_without(node, *there);
  map_->finish();
  node.fail("is not a key here");
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

void FieldReader::operator()(std::string_view key, Watts& value, Range range) {
  if (const auto node = find(key)) value = Watts(node->number(range.least, range.most));
}

void FieldReader::operator()(std::string_view key, bool& value) {
  if (const auto node = find(key)) value = node->boolean();
}

void FieldReader::operator()(std::string_view key, std::string& value) {
  if (const auto node = find(key)) value = node->text();
}

void FieldReader::operator()(std::string_view key, std::string& value, const OneOf& choices) {
  if (const auto node = find(key)) value = choice(*node, choices);
}

void FieldReader::operator()(std::string_view key, int& value, const OneOf& choices) {
  if (const auto node = find(key)) value = std::stoi(choice(*node, choices));
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

void FieldReader::operator()(std::string_view key, std::optional<bool>& value) {
  const auto node = find(key);
  if (!node) return;
  value.reset();
  if (!is_auto(*node)) value = node->boolean();
}

void FieldReader::operator()(std::string_view key, std::optional<int>& value, Range range) {
  const auto node = find(key);
  if (!node) return;
  value.reset();
  if (!is_auto(*node)) value = static_cast<int>(integer(*node, range));
}

void FieldReader::operator()(std::string_view key, std::optional<double>& value, Range range) {
  const auto node = find(key);
  if (!node) return;
  value.reset();
  if (!is_auto(*node)) value = node->number(range.least, range.most);
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

void FieldReader::operator()(std::string_view key, std::vector<chain::Clock>& value) {
  if (const auto node = find(key)) value = chain::read_clocks(*node);
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
  if (!size)
    node.fail(concat("is ", node.found(), ", must be a size such as 2GiB, 4096 or 80%",
                     is_scalar ? io::size_meant_by(node.text()) : ""));
  return {.bytes = *size};
}

std::string choice(const io::Node& node, const OneOf& choices) {
  const bool is_word = node.kind() == io::Node::Kind::kScalar;
  const std::string meant = is_word ? choice_meant_by(node.text(), choices) : "";
  if (!meant.empty() && meant != node.text())
    node.fail(concat("is ", node.found(), ", must be one of ", join(choices, ", "),
                     " (did you mean '", meant, "'?)"));
  return node.choice(choices);
}

void refuse_without(const io::Node& node, const NeededWord& needed) {
  const std::string& full = node.key();
  const std::string key = concat(full.substr(0, full.rfind('.') + 1), needed.key);
  node.fail(concat("is a key of ", key, " ", join(needed.words, " or "), ", but ", key, " is ",
                   needed.now, ": leave it out"));
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
