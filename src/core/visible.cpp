// SPDX-License-Identifier: Apache-2.0
#include "trireme/core/visible.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

namespace trireme {
namespace {

/// Code point of one complete UTF-8 character.
char32_t code_point(std::string_view character);
bool is_control(char32_t code);

}  // namespace

std::string_view first_character(std::string_view text) {
  return text.substr(0, std::max<std::size_t>(1, utf8_size(text)));
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t size = utf8_size(text);
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

std::size_t utf8_size(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto continues = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  if (text.empty()) return 0;
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0) return continues(1) ? 2 : 0;
  if (lead >= 0xE0 && lead < 0xF0) {
    const bool overlong = lead == 0xE0 && byte(1) < 0xA0;
    const bool surrogate = lead == 0xED && byte(1) >= 0xA0;
    return continues(1) && continues(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (lead >= 0xF0 && lead < 0xF5) {
    const bool overlong = lead == 0xF0 && byte(1) < 0x90;
    const bool beyond = lead == 0xF4 && byte(1) >= 0x90;
    return continues(1) && continues(2) && continues(3) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

std::string visible_character(std::string_view character) {
  if (character == "\n") return "\\n";
  if (character == "\r") return "\\r";
  if (character == "\t") return "\\t";
  std::array<char, 8> escape{};
  if (utf8_size(character) == 0) {
    const unsigned byte = static_cast<unsigned char>(character.front());
    std::snprintf(escape.data(), escape.size(), "\\x%02x", byte);
    return escape.data();
  }
  const char32_t code = code_point(character);
  if (!is_control(code)) return std::string(character);
  std::snprintf(escape.data(), escape.size(), "\\u%04x", static_cast<unsigned>(code & 0xFFFF));
  return escape.data();
}

std::string visible(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const std::string_view character = first_character(text);
    shown += visible_character(character);
    text.remove_prefix(character.size());
  }
  return shown;
}

bool is_visible(std::string_view text) {
  return visible(text) == text;
}

std::string shown_words(const std::exception& error) {
  const bool is_own = dynamic_cast<const Error*>(&error) != nullptr;
  std::vector<std::string> lines;
  for (const std::string& line : split(words_of(error), '\n')) {
    if (is_own && !lines.empty() && !line.starts_with("  ")) {
      lines.back() += "\\n" + visible(line);
    } else {
      lines.push_back(visible(line));
    }
  }
  while (lines.size() > 1 && lines.back().empty()) lines.pop_back();
  return join(lines, "\n    ");
}

namespace {

char32_t code_point(std::string_view character) {
  constexpr std::array<unsigned, 5> kLeadBits{0, 0x7F, 0x1F, 0x0F, 0x07};
  char32_t code = static_cast<unsigned char>(character.front()) & kLeadBits[character.size()];
  for (const char c : character.substr(1))
    code = code << 6 | (static_cast<unsigned char>(c) & 0x3F);
  return code;
}

bool is_control(char32_t code) {
  const bool is_c0_or_c1 = code < 0x20 || (code >= 0x7F && code < 0xA0);
  const bool ends_line = code == 0x2028 || code == 0x2029;
  // Marks, embeddings, overrides and isolates of Unicode's bidirectional algorithm (UAX 9).
  const bool turns = code == 0x61C || code == 0x200E || code == 0x200F ||
                     (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
  return is_c0_or_c1 || ends_line || turns;
}

}  // namespace
}  // namespace trireme
