// SPDX-License-Identifier: Apache-2.0
#include "tree_builder.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <utility>

namespace trireme::io {

bool TreeBuilder::awaits_key() const {
  return !open_.empty() && open_.back().element->kind == Node::Kind::kMap && !open_.back().has_key;
}

void TreeBuilder::key(std::string text, int line) {
  Element& entry = open_.back().element->children.emplace_back();
  entry.key = std::move(text);
  entry.line = line;
  open_.back().has_key = true;
}

void TreeBuilder::null(int line) {
  place(line).kind = Node::Kind::kNull;
}

void TreeBuilder::scalar(std::string text, bool quoted, int line) {
  Element& element = place(line);
  element.kind = Node::Kind::kScalar;
  element.text = std::move(text);
  element.quoted = quoted;
}

void TreeBuilder::begin(Node::Kind list_or_map, int line) {
  Element& element = place(line);
  element.kind = list_or_map;
  open_.push_back({&element, false});
  if (open_.size() > kDeepest)
    fail(line, concat("lists and maps are nested deeper than ", kDeepest));
}

void TreeBuilder::end() {
  const Element& ended = *open_.back().element;
  if (ended.kind == Node::Kind::kMap) refuse_duplicates(ended);
  open_.pop_back();
}

void TreeBuilder::fail(int line, std::string_view message) const {
  throw InputError(concat(source_.at(line), message));
}

Element& TreeBuilder::place(int line) {
  if (++values_ > kMostValues) fail(line, concat("more than ", kMostValues, " values"));
  if (open_.empty()) {
    root_.line = line;
    return root_;
  }
  Open& parent = open_.back();
  if (parent.element->kind == Node::Kind::kList) {
    parent.element->children.emplace_back().line = line;
  } else if (!parent.has_key) {
    fail(line, "a key must be a word, not empty, a list or a map (or a bracket is not closed)");
  }
  parent.has_key = false;
  return parent.element->children.back();
}

void TreeBuilder::refuse_duplicates(const Element& map) const {
  std::vector<const Element*> sorted;
  sorted.reserve(map.children.size());
  for (const Element& entry : map.children) sorted.push_back(&entry);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Element* a, const Element* b) { return a->key < b->key; });
  const auto same =
      std::adjacent_find(sorted.begin(), sorted.end(),
                         [](const Element* a, const Element* b) { return a->key == b->key; });
  if (same == sorted.end()) return;
  const Element& first = **same;
  const Element& second = **(same + 1);
  fail(second.line, concat(key_below(path(), second.key), " appears twice",
                           source_.has_lines ? concat(" (first in line ", first.line, ")") : ""));
}

std::string TreeBuilder::path() const {
  std::string path;
  for (std::size_t i = 0; i + 1 < open_.size(); ++i) {
    const Element& parent = *open_[i].element;
    path = parent.kind == Node::Kind::kList ? concat(path, "[", parent.children.size() - 1, "]")
                                            : key_below(path, parent.children.back().key);
  }
  return path;
}

}  // namespace trireme::io
