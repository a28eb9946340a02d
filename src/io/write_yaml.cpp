// SPDX-License-Identifier: Apache-2.0
#include "document.h"

#include "trireme/core/text.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace trireme::io {
namespace {

void write(std::string& out, const Element& element, const std::string& indent);
void write_children(std::string& out, const Element& element, const std::string& indent);
/// "[0.9, 0.95]": lists of scalars stay on a line.
std::string in_one_line(const Element& list);
std::string scalar(const Element& element);

bool is_plain_character(char c);
/// Words that readers of YAML do not take for text.
bool is_reserved(std::string_view word);

}  // namespace

std::string Node::to_yaml() const {
  std::string out;
  write(out, *impl_->element, "");
  out.erase(0, out.find_first_not_of("\n "));
  return out + "\n";
}

std::string yaml_text(std::string_view text) {
  const bool begins_plain =
      !text.empty() &&
      (std::isalpha(static_cast<unsigned char>(text[0])) != 0 || text[0] == '_' || text[0] == '/');
  const bool is_plain = begins_plain && std::all_of(text.begin(), text.end(), is_plain_character) &&
                        !is_reserved(text);
  return is_plain ? std::string(text) : json_text(text);
}

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += concat('\\', c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7F) {
      constexpr std::string_view kHex = "0123456789abcdef";
      out += concat("\\u00", kHex[byte >> 4], kHex[byte & 15]);
    } else {
      out.push_back(c);
    }
  }
  return out + '"';
}

namespace {

void write(std::string& out, const Element& element, const std::string& indent) {
  switch (element.kind) {
    case Node::Kind::kNull:
      out += " null";
      return;
    case Node::Kind::kScalar:
      out += concat(" ", scalar(element));
      return;
    case Node::Kind::kList:
    case Node::Kind::kMap:
      write_children(out, element, indent);
      return;
  }
}

void write_children(std::string& out, const Element& element, const std::string& indent) {
  const bool is_map = element.kind == Node::Kind::kMap;
  const bool has_scalars_only =
      std::all_of(element.children.begin(), element.children.end(),
                  [](const Element& child) { return child.kind == Node::Kind::kScalar; });
  if (element.children.empty() && is_map) {
    out += " {}";
  } else if (!is_map && has_scalars_only) {
    out += concat(" ", in_one_line(element));
  } else {
    for (const Element& child : element.children) {
      out += is_map ? concat("\n", indent, yaml_text(child.key), ":") : concat("\n", indent, "-");
      write(out, child, concat(indent, "  "));
    }
  }
}

std::string in_one_line(const Element& list) {
  std::vector<std::string> texts;
  for (const Element& child : list.children) texts.push_back(scalar(child));
  return concat("[", join(texts, ", "), "]");
}

std::string scalar(const Element& element) {
  // An unquoted value may be a number and must stay unquoted; all else is safe in quotes.
  const std::string& text = element.text;
  const bool may_be_number =
      !text.empty() && std::all_of(text.begin(), text.end(), is_plain_character) &&
      std::any_of(text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c) != 0; });
  return !element.quoted && may_be_number ? text : yaml_text(text);
}

bool is_plain_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("_./+-").find(c) != std::string_view::npos;
}

bool is_reserved(std::string_view word) {
  static constexpr std::array<std::string_view, 9> kWords{"true", "false", "null", "yes", "no",
                                                          "on",   "off",   "y",    "n"};
  std::string lower(word);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::find(kWords.begin(), kWords.end(), lower) != kWords.end();
}

}  // namespace
}  // namespace trireme::io
