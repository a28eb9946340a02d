// SPDX-License-Identifier: Apache-2.0
#include "tree_builder.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/core/visible.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cstddef>
#include <istream>
#include <streambuf>
#include <utility>

namespace trireme::io {
namespace {

/// Feeds a text in pieces and stops a parser that reads far without an event. To yaml-cpp every
/// list may turn out to be a key when it ends, and until then it keeps all of its tokens, at a
/// hundred bytes per byte of text.
class PacedText : public std::streambuf {
 public:
  explicit PacedText(std::string text) : text_(std::move(text)) {}

  struct TooFar {};
  static constexpr std::size_t kMostAhead = 1 << 20;

  void progress() { seen_ = given_; }

 protected:
  int_type underflow() override {
    if (given_ == text_.size()) return traits_type::eof();
    if (given_ - seen_ > kMostAhead) throw TooFar{};
    const std::size_t count = std::min<std::size_t>(1 << 14, text_.size() - given_);
    char* const piece = text_.data() + given_;
    setg(piece, piece, piece + count);
    given_ += count;
    return traits_type::to_int_type(*piece);
  }

 private:
  std::string text_;
  std::size_t given_ = 0;
  std::size_t seen_ = 0;
};

/// Passes the parser's events on to the builder.
class YamlEvents : public YAML::EventHandler {
 public:
  YamlEvents(const Source& source, PacedText& text) : builder_(source), text_(text) {}

  Element take() { return builder_.take(); }
  int line() const { return line_; }
  [[noreturn]] void fail(int line, std::string_view message) const { builder_.fail(line, message); }

  void OnDocumentStart(const YAML::Mark& mark) override;
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override;
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override;
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override;
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override;
  void OnSequenceEnd() override { builder_.end(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override;
  void OnMapEnd() override { builder_.end(); }

 private:
  int enter(const YAML::Mark& mark, std::string_view tag, YAML::anchor_t anchor);

  TreeBuilder builder_;
  PacedText& text_;
  int documents_ = 0;
  int line_ = 1;
};

std::string_view without_byte_order_mark(std::string_view text);
/// Whether line `line` of the text, from 1, begins with white space that has a tab.
bool is_indented_with_tab(std::string_view text, int line);
/// Throws InputError unless the text is UTF-8 without control characters. One of them (0x04) is
/// yaml-cpp's own end-of-text mark.
void require_readable(std::string_view text, const Source& source);

}  // namespace

Element read_text(std::string_view text, const Source& source) {
  text = without_byte_order_mark(text);
  require_readable(text, source);
  const bool json = source.name.ends_with(".json") || is_json(text);
  return json ? read_json(text, source) : read_yaml(text, source);
}

Element read_yaml(std::string_view text, const Source& source) {
  // A final comment without a line break: after a line break yaml-cpp accepts a quoted text that is
  // never closed.
  PacedText paced(concat(text, text.ends_with('\n') ? "#" : "\n#"));
  YamlEvents events(source, paced);
  try {
    std::istream stream(&paced);
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(events)) {
    }
  } catch (const PacedText::TooFar&) {
    events.fail(events.line(), concat("no value is complete within ",
                                      to_text(Bytes(PacedText::kMostAhead)), " from here on"));
  } catch (const YAML::ParserException& failure) {
    const auto breaks = std::count(text.begin(), text.end(), '\n');
    const int last = static_cast<int>(breaks) + (text.ends_with('\n') ? 0 : 1);
    const int line = std::clamp(failure.mark.line + 1, 1, std::max(last, 1));
    if (is_indented_with_tab(text, line))
      events.fail(line, "the line is indented with a tab, YAML takes spaces alone");
    events.fail(line, concat("not YAML: ", failure.msg));
  }
  return events.take();
}

namespace {

void YamlEvents::OnDocumentStart(const YAML::Mark& mark) {
  if (++documents_ > 1) fail(mark.line + 1, "something follows the end of the document");
}

void YamlEvents::OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) {
  builder_.null(enter(mark, "", anchor));
}

void YamlEvents::OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) {
  enter(mark, "", anchor);
}

void YamlEvents::OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                          const std::string& value) {
  const int line = enter(mark, tag, anchor);
  // yaml-cpp turns "\N" and "\_" into a lone byte.
  if (tag == "!" && !is_utf8(value)) fail(line, "a text in quotes with an escape that is not read");
  if (builder_.awaits_key()) {
    builder_.key(value, line);
  } else {
    builder_.scalar(value, tag == "!", line);
  }
}

void YamlEvents::OnSequenceStart(const YAML::Mark& mark, const std::string& tag,
                                 YAML::anchor_t anchor, YAML::EmitterStyle::value) {
  builder_.begin(Node::Kind::kList, enter(mark, tag, anchor));
}

void YamlEvents::OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                            YAML::EmitterStyle::value) {
  builder_.begin(Node::Kind::kMap, enter(mark, tag, anchor));
}

int YamlEvents::enter(const YAML::Mark& mark, std::string_view tag, YAML::anchor_t anchor) {
  text_.progress();
  line_ = std::max(mark.line + 1, 1);
  if (anchor != YAML::NullAnchor)
    fail(line_,
         "anchors and aliases (&, *) are not supported: write it out, or put text in quotes");
  // yaml-cpp gives quoted text the tag "!" and any other untagged value "?".
  if (!tag.empty() && tag != "!" && tag != "?")
    fail(line_, concat("tags (", shown(tag), ") are not supported: put text in quotes"));
  return line_;
}

std::string_view without_byte_order_mark(std::string_view text) {
  return text.starts_with("\xEF\xBB\xBF") ? text.substr(3) : text;
}

bool is_indented_with_tab(std::string_view text, int line) {
  for (; line > 1; --line) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  const std::string_view indent = text.substr(0, text.find_first_not_of(" \t"));
  return indent.find('\t') != std::string_view::npos;
}

void require_readable(std::string_view text, const Source& source) {
  int line = 1;
  while (!text.empty()) {
    const auto byte = static_cast<unsigned char>(text.front());
    const bool is_control =
        (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7F;
    if (is_control)
      throw InputError(concat(source.at(line), "not a text: holds control character ", int{byte}));
    const std::size_t size = utf8_size(text);
    if (size == 0) throw InputError(concat(source.at(line), "not a text in UTF-8"));
    line += byte == '\n' ? 1 : 0;
    text.remove_prefix(size);
  }
}

}  // namespace
}  // namespace trireme::io
