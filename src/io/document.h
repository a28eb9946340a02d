// The parsed document: a tree of plain values, compact because a chain may have a million of them.
// Nodes are views of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/io/node.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::io {

/// A value: a scalar has text, a list children, a map children with keys.
struct Element {
  Node::Kind kind = Node::Kind::kNull;
  bool quoted = false;
  int line = 0;  ///< from 1, of the key where there is one; 0: from the command line
  std::string key;
  std::string text;
  std::vector<Element> children;

  const Element* child(std::string_view name) const;
};

struct Document {
  std::string name;
  Element root;
  bool has_lines = true;  ///< that somebody has seen
};

struct Node::Impl {
  std::shared_ptr<const Document> document;
  const Element* element = nullptr;
  std::string key;
};

Node root_of(std::shared_ptr<const Document> document);

/// Where a text comes from: "FILE:LINE: ", or "--set KEY: " without lines.
struct Source {
  std::string name;
  bool has_lines = true;

  std::string at(int line) const;
};

/// The three readers throw InputError; `read_text` reads JSON as JSON, all else as YAML.
Element read_text(std::string_view text, const Source& source);
Element read_yaml(std::string_view text, const Source& source);
Element read_json(std::string_view text, const Source& source);
/// Whether `text` is one JSON document that is a list or an object.
bool is_json(std::string_view text);

/// A piece of a document as it is shown in a message: short, and visible().
std::string shown(std::string_view text);

/// "parent.key".
std::string key_below(std::string_view parent, std::string_view key);

}  // namespace trireme::io
