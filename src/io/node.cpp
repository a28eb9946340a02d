// SPDX-License-Identifier: Apache-2.0
#include "trireme/io/node.h"

#include "document.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/core/visible.h"
#include "trireme/io/file.h"
#include "trireme/io/sizes.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace trireme::io {
namespace {

Node node_of(std::shared_ptr<const Document> document, const Element& element, std::string key);
std::string where(const Document& document, int line, std::string_view key);
[[noreturn]] void refuse(const Node& node, std::string_view expected);

/// Digits with an optional minus, nothing else: "010" means 8 to some readers of YAML and 10 to
/// others.
std::optional<std::int64_t> parse_integer(std::string_view text);
std::optional<double> parse_number(std::string_view text);

std::string whole_numbers(std::int64_t least, std::int64_t most);
std::string numbers(double least, double most);

}  // namespace

Node load(const std::filesystem::path& file, Bytes most) {
  return parse(read_file(file, most), file.string());
}

Node parse(std::string_view text, std::string_view name) {
  const Source source{std::string(name)};
  return root_of(std::make_shared<const Document>(Document{source.name, read_text(text, source)}));
}

Node parse_values(std::string_view text, std::string_view name) {
  const Source source{std::string(name), false};
  return root_of(
      std::make_shared<const Document>(Document{source.name, read_text(text, source), false}));
}

Node root_of(std::shared_ptr<const Document> document) {
  const Element& root = document->root;
  return node_of(std::move(document), root, "");
}

Node::Kind Node::kind() const {
  return impl_->element->kind;
}

std::string Node::where() const {
  return io::where(*impl_->document, impl_->element->line, key());
}

const std::string& Node::key() const {
  return impl_->key;
}

const std::string& Node::source() const {
  return impl_->document->name;
}

Node Node::called(std::string_view name) const {
  return node_of(impl_->document, *impl_->element, shown(name));
}

void Node::fail(std::string_view message) const {
  throw InputError(concat(where(), " ", message));
}

void Node::fail_at(std::string_view path, std::string_view message) const {
  const Element* nearest = impl_->element;
  // A missing value was not set: a map that --set has made says nothing about its line.
  int line = nearest->line == 0 ? impl_->document->root.line : nearest->line;
  for (const std::string& name : split(path, '.')) {
    nearest = nearest->child(name);
    if (nearest == nullptr) break;
    if (nearest->line > 0) line = nearest->line;
  }
  if (nearest != nullptr) line = nearest->line;
  const std::string full_key = key_below(key(), path);
  throw InputError(concat(io::where(*impl_->document, line, full_key), " ", message));
}

std::string Node::found() const {
  switch (kind()) {
    case Kind::kNull:
      return "empty";
    case Kind::kList:
      return "a list";
    case Kind::kMap:
      return "a map";
    case Kind::kScalar:
      break;
  }
  const Element& element = *impl_->element;
  return element.quoted ? concat('"', shown(element.text), '"') : shown(element.text);
}

std::string Node::text() const {
  if (kind() != Kind::kScalar) refuse(*this, "text");
  return impl_->element->text;
}

bool Node::boolean() const {
  const Element& element = *impl_->element;
  const bool is_true = element.text == "true";
  if (kind() != Kind::kScalar || element.quoted || (!is_true && element.text != "false"))
    refuse(*this, "true or false");
  return is_true;
}

std::int64_t Node::integer(std::int64_t least, std::int64_t most) const {
  const Element& element = *impl_->element;
  const auto value = element.quoted ? std::nullopt : parse_integer(element.text);
  if (!value || *value < least || *value > most) refuse(*this, whole_numbers(least, most));
  return *value;
}

double Node::number(double least, double most) const {
  const Element& element = *impl_->element;
  const auto value = element.quoted ? std::nullopt : parse_number(element.text);
  if (!value || *value < least || *value > most) refuse(*this, numbers(least, most));
  return *value;
}

Bytes Node::bytes() const {
  const auto size = parse_bytes(impl_->element->text);
  if (!size)
    refuse(*this,
           concat("a size such as 2GiB or 4096 (bytes)", size_meant_by(impl_->element->text)));
  return *size;
}

Seconds Node::seconds() const {
  const auto time = parse_seconds(impl_->element->text);
  if (!time) refuse(*this, "a time such as 1.5ms or 60 (seconds)");
  return *time;
}

std::string Node::choice(const std::vector<std::string>& choices) const {
  const std::string& text = impl_->element->text;
  if (kind() == Kind::kScalar && std::find(choices.begin(), choices.end(), text) != choices.end())
    return text;
  if (choices.size() == 1) refuse(*this, choices.front());
  refuse(*this, concat("one of ", join(choices, ", "), did_you_mean(text, choices)));
}

std::vector<Node> Node::list() const {
  if (kind() != Kind::kList) refuse(*this, "a list");
  std::vector<Node> nodes;
  nodes.reserve(impl_->element->children.size());
  for (const Element& child : impl_->element->children)
    nodes.push_back(node_of(impl_->document, child, concat(key(), "[", nodes.size(), "]")));
  return nodes;
}

std::vector<std::pair<std::string, Node>> Node::entries() const {
  if (kind() != Kind::kMap) refuse(*this, "a map (key: value)");
  std::vector<std::pair<std::string, Node>> nodes;
  for (const Element& child : impl_->element->children)
    nodes.emplace_back(child.key, node_of(impl_->document, child, key_below(key(), child.key)));
  return nodes;
}

std::optional<Node> Node::find(std::string_view name) const {
  if (kind() != Kind::kMap) refuse(*this, "a map (key: value)");
  const Element* const child = impl_->element->child(name);
  if (child == nullptr) return std::nullopt;
  return node_of(impl_->document, *child, key_below(key(), name));
}

const Element* Element::child(std::string_view name) const {
  const auto found = std::find_if(children.begin(), children.end(), [&](const Element& element) {
    return kind == Node::Kind::kMap && element.key == name;
  });
  return found == children.end() ? nullptr : &*found;
}

std::string Source::at(int line) const {
  return has_lines ? concat(name, ":", line, ": ") : concat(name, ": ");
}

std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 60;
  std::string seen;
  while (!text.empty()) {
    if (seen.size() >= kMost) return seen + "...";
    const std::string_view character = first_character(text);
    seen += visible_character(character);
    text.remove_prefix(character.size());
  }
  return seen;
}

std::string key_below(std::string_view parent, std::string_view key) {
  return parent.empty() ? shown(key) : concat(parent, ".", shown(key));
}

namespace {

Node node_of(std::shared_ptr<const Document> document, const Element& element, std::string key) {
  return Node(std::make_shared<const Node::Impl>(
      Node::Impl{std::move(document), &element, std::move(key)}));
}

std::string where(const Document& document, int line, std::string_view key) {
  if (line == 0) return concat("--set ", key);
  const std::string_view place = key.empty() ? "the document" : key;
  return document.has_lines ? concat(document.name, ":", line, ": ", place)
                            : concat(document.name, ": ", place);
}

void refuse(const Node& node, std::string_view expected) {
  node.fail(concat("is ", node.found(), ", must be ", expected));
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  if (digits.size() > 1 && digits.front() == '0') return std::nullopt;
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, failure] = std::from_chars(text.data(), end, value);
  if (failure != std::errc{} || rest != end) return std::nullopt;
  return value;
}

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, failure] = std::from_chars(text.data(), end, value);
  if (failure != std::errc{} || rest != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::string whole_numbers(std::int64_t least, std::int64_t most) {
  using Limits = std::numeric_limits<std::int64_t>;
  if (most < Limits::max()) return concat("a whole number from ", least, " to ", most);
  if (least > Limits::min()) return concat("a whole number of at least ", least);
  return "a whole number";
}

std::string numbers(double least, double most) {
  if (std::isfinite(most)) return concat("a number from ", to_text(least), " to ", to_text(most));
  if (std::isfinite(least)) return concat("a number of at least ", to_text(least));
  return "a number";
}

}  // namespace
}  // namespace trireme::io
