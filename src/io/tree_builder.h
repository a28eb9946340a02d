// Builds the tree of a document from a parser's events, YAML's or JSON's, and keeps the limits that
// both share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "document.h"

#include <cstddef>
#include <string>
#include <vector>

namespace trireme::io {

class TreeBuilder {
 public:
  explicit TreeBuilder(const Source& source) : source_(source) { root_.line = 1; }

  /// Whether the next event is the key of a map's entry.
  bool awaits_key() const;
  void key(std::string text, int line);
  void null(int line);
  void scalar(std::string text, bool quoted, int line);
  void begin(Node::Kind list_or_map, int line);
  void end();

  Element take() { return std::move(root_); }
  [[noreturn]] void fail(int line, std::string_view message) const;

 private:
  /// A list or map that is not yet ended. While it is open its parent takes no other child, so the
  /// pointer stays good.
  struct Open {
    Element* element;
    bool has_key;
  };

  /// The place of the next value: the document, a new element of a list, the entry of the last key.
  Element& place(int line);
  void refuse_duplicates(const Element& map) const;
  /// Key of the innermost open value.
  std::string path() const;

  const Source& source_;
  Element root_;
  std::vector<Open> open_;
  std::size_t values_ = 0;
};

}  // namespace trireme::io
