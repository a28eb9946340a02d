// A tiny reader of markup: are all tags closed in order, all values quoted, all text escaped?
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::report {

/// Whether text between tags or in quotes has no bare `<`, `>` or `&`.
inline bool is_escaped(std::string_view text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '<' || text[at] == '>') return false;
    if (text[at] != '&') continue;
    const std::string_view rest = text.substr(at);
    if (!rest.starts_with("&amp;") && !rest.starts_with("&lt;") && !rest.starts_with("&gt;") &&
        !rest.starts_with("&quot;"))
      return false;
  }
  return true;
}

/// Takes `name="value"` pairs off the front; whether nothing else stood there.
inline bool are_attributes(std::string_view text) {
  while (!text.empty()) {
    const std::size_t equals = text.find("=\"");
    if (!text.starts_with(' ') || equals == std::string_view::npos) return false;
    const std::string_view name = text.substr(1, equals - 1);
    const std::size_t end = text.find('"', equals + 2);
    if (name.empty() || end == std::string_view::npos) return false;
    if (!std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == ':'; }))
      return false;
    if (!is_escaped(text.substr(equals + 2, end - equals - 2))) return false;
    text.remove_prefix(end + 1);
  }
  return true;
}

/// What is wrong with a page, "" for nothing.
inline std::string markup_fault(std::string_view page) {
  constexpr std::string_view kHead = "<!DOCTYPE html>\n";
  if (page.starts_with(kHead)) page.remove_prefix(kHead.size());
  std::vector<std::string> open;
  while (!page.empty()) {
    const std::size_t begin = std::min(page.find('<'), page.size());
    if (!is_escaped(page.substr(0, begin)))
      return "not escaped: " + std::string(page.substr(0, 60));
    page.remove_prefix(begin);
    if (page.empty()) break;
    const std::size_t end = page.find('>');
    if (end == std::string_view::npos) return "a tag without an end";
    std::string_view tag = page.substr(1, end - 1);
    page.remove_prefix(end + 1);
    if (tag.starts_with('/')) {
      if (open.empty() || open.back() != tag.substr(1)) return "out of turn: <" + std::string(tag);
      open.pop_back();
      continue;
    }
    const bool alone = tag.ends_with('/');
    if (alone) tag.remove_suffix(1);
    const std::string_view name = tag.substr(0, tag.find(' '));
    if (name.empty() || !are_attributes(tag.substr(name.size())))
      return "no tag: <" + std::string(tag) + ">";
    if (!alone) open.emplace_back(name);
  }
  return open.empty() ? "" : "never closes " + open.back();
}

/// How often `part` stands in `text`.
inline int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

/// What a page would fetch from elsewhere or run, "" for nothing. The name of SVG's vocabulary is
/// an address that nobody visits.
inline std::string outside_of(std::string page) {
  const std::string vocabulary = "http://www.w3.org/2000/svg";
  for (std::size_t at = page.find(vocabulary); at != std::string::npos; at = page.find(vocabulary))
    page.erase(at, vocabulary.size());
  for (const char* const sign :
       {"http:", "https:", "//", "<script", "<link", "src=", "href=", "url(", "@import"}) {
    if (page.find(sign) != std::string::npos) return sign;
  }
  return "";
}

}  // namespace trireme::report
