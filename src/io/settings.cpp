// SPDX-License-Identifier: Apache-2.0
#include "document.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>

namespace trireme::io {
namespace {

std::vector<std::string> path_of(std::string_view key, const Source& source);
/// The value at `path`; missing maps are created.
Element& make_place(Element& root, const std::vector<std::string>& path, const Source& source);
/// Marks a value and all below it as coming from the command line.
void forget_lines(Element& element);

}  // namespace

Node with_setting(const Node& root, std::string_view setting) {
  const std::size_t equals = setting.find('=');
  if (equals == std::string_view::npos)
    throw InputError(concat("--set ", shown(setting), ": must be section.key=value"));
  const std::string_view key = setting.substr(0, equals);
  const Source source{concat("--set ", shown(key)), false};

  auto document = std::make_shared<Document>(
      Document{root.source(), *root.impl_->element, root.impl_->document->has_lines});
  Element& place = make_place(document->root, path_of(key, source), source);
  Element value = read_text(setting.substr(equals + 1), source);
  value.key = place.key;
  forget_lines(value);
  place = std::move(value);
  return root_of(std::move(document));
}

namespace {

std::vector<std::string> path_of(std::string_view key, const Source& source) {
  std::vector<std::string> path = split(key, '.');
  if (path.size() > kDeepest)
    throw InputError(concat(source.at(0), "the key is nested too deeply"));
  for (const std::string& name : path) {
    if (name.empty() || name.find_first_of("[] \t") != std::string::npos)
      throw InputError(source.at(0) + "the key must be words joined by dots");
  }
  return path;
}

Element& make_place(Element& root, const std::vector<std::string>& path, const Source& source) {
  Element* place = &root;
  for (const std::string& name : path) {
    if (place->kind == Node::Kind::kNull) place->kind = Node::Kind::kMap;
    if (place->kind != Node::Kind::kMap) {
      const std::string holder = place == &root ? "the document" : shown(place->key);
      throw InputError(concat(source.at(0), holder, " is not a map (key: value)"));
    }
    const auto found = std::find_if(place->children.begin(), place->children.end(),
                                    [&](const Element& child) { return child.key == name; });
    if (found != place->children.end()) {
      place = &*found;
    } else {
      place = &place->children.emplace_back();
      place->key = name;
    }
  }
  return *place;
}

void forget_lines(Element& element) {
  element.line = 0;
  for (Element& child : element.children) forget_lines(child);
}

}  // namespace
}  // namespace trireme::io
