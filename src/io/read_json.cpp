// SPDX-License-Identifier: Apache-2.0
#include "tree_builder.h"

#include "trireme/core/text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace trireme::io {
namespace {

using Json = nlohmann::json;

/// Iterates over a text and remembers what was read last: the parser itself reports no lines.
struct TrackedText {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at;
  const char** last_read;

  reference operator*() const { return *at; }
  TrackedText& operator++() {
    *last_read = at++;
    return *this;
  }
  bool operator==(const TrackedText& other) const { return at == other.at; }
};

/// Passes the parser's events on to the builder.
class JsonEvents {
 public:
  JsonEvents(std::string_view text, const Source& source)
      : builder_(source), last_read_(text.data()), counted_(text.data()) {}

  const char** last_read() { return &last_read_; }
  Element take() { return builder_.take(); }

  bool null() { return builder_.null(line()), true; }
  bool boolean(bool value) { return scalar(value ? "true" : "false", false); }
  /// Called for negative numbers; a zero among them is -0.
  bool number_integer(Json::number_integer_t value) {
    return scalar(value == 0 ? "-0" : concat(value), false);
  }
  bool number_unsigned(Json::number_unsigned_t value) { return scalar(concat(value), false); }
  bool number_float(Json::number_float_t, const std::string& text) { return scalar(text, false); }
  bool string(std::string& text) { return scalar(std::move(text), true); }
  bool binary(Json::binary_t&) { return false; }
  bool key(std::string& text) { return builder_.key(std::move(text), line()), true; }
  bool start_object(std::size_t) { return builder_.begin(Node::Kind::kMap, line()), true; }
  bool start_array(std::size_t) { return builder_.begin(Node::Kind::kList, line()), true; }
  bool end_object() { return builder_.end(), true; }
  bool end_array() { return builder_.end(), true; }

  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& failure) {
    // "[json.exception.parse_error.101] parse error at line 3, column 5: what is wrong; what was
    // read"
    const std::string_view text = failure.what();
    const std::size_t begin = text.find(": ") + 2;
    builder_.fail(line(), concat("not JSON: ", text.substr(begin, text.find("; ") - begin)));
  }

 private:
  bool scalar(std::string text, bool is_quoted) {
    return builder_.scalar(std::move(text), is_quoted, line()), true;
  }
  /// Line of what was read last. A number ends when the parser reads the character after it, which
  /// is then the one read last: a line break there does not count yet.
  int line() {
    line_ += static_cast<int>(std::count(counted_, last_read_, '\n'));
    counted_ = last_read_;
    return line_;
  }

  TreeBuilder builder_;
  const char* last_read_;
  const char* counted_;
  int line_ = 1;
};

}  // namespace

Element read_json(std::string_view text, const Source& source) {
  JsonEvents events(text, source);
  const TrackedText begin{text.data(), events.last_read()};
  const TrackedText end{text.data() + text.size(), events.last_read()};
  Json::sax_parse(begin, end, &events);
  return events.take();
}

bool is_json(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || (text[first] != '{' && text[first] != '[')) return false;
  return Json::accept(text);
}

}  // namespace trireme::io
