// Lists of passes as text: equal passes in a row and repeated groups are counted.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/core/visible.h"
#include "trireme/schedule/order.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <span>
#include <utility>

namespace trireme::schedule {
namespace {

using Passes = std::span<const Pass>;

constexpr std::string_view kLetters = "FBIW";  // in the order of the kinds
/// Letters of a wrong word that are shown.
constexpr std::size_t kShown = 40;
/// Longest group that is looked for.
constexpr std::size_t kLongest = 48;

/// How often the first `length` passes stand in a row at the front.
std::size_t times(Passes passes, std::size_t length);
/// Length of the group at the front whose repetition saves the most passes of text; 1 if none does.
std::size_t best_group(Passes passes);
/// "F0*4 F1": equal passes in a row are counted.
std::string runs(Passes passes);

/// The front of `text` up to a space outside of parentheses, which are taken off it.
std::string_view next_word(std::string_view& text);
/// `word` in front of a star, and the number after it; 1 without a star.
std::pair<std::string_view, int> counted(std::string_view word, int most);
Pass parse_pass(std::string_view word);
[[noreturn]] void refuse(std::string_view word, int most);
/// A whole number, all of `text`.
std::optional<int> whole(std::string_view text);

}  // namespace

char letter(Pass::Kind kind) {
  return kLetters[static_cast<std::size_t>(kind)];
}

std::string to_text(const std::vector<Pass>& passes) {
  std::string text;
  for (Passes left(passes); !left.empty();) {
    const std::size_t length = best_group(left), number = times(left, length);
    if (!text.empty()) text += ' ';
    const std::string group = runs(left.first(length));
    text += length == 1 ? runs(left.first(number)) : concat('(', group, ")*", number);
    left = left.subspan(length * number);
  }
  return text;
}

std::vector<Pass> parse_passes(std::string_view text, int most) {
  std::vector<Pass> passes;
  while (!text.empty()) {
    const std::string_view word = next_word(text);
    if (word.empty()) continue;
    const auto [inner, times] = counted(word, most);
    const std::vector<Pass> group = inner.front() == '('
                                        ? parse_passes(inner.substr(1, inner.size() - 2), most)
                                        : std::vector<Pass>{parse_pass(inner)};
    if (group.empty()) refuse(word, most);
    if (group.size() * static_cast<std::size_t>(times) >
        static_cast<std::size_t>(most) - passes.size())
      throw InputError(concat("more than ", most, " passes at '", word, "'"));
    for (int i = 0; i < times; ++i) passes.insert(passes.end(), group.begin(), group.end());
  }
  return passes;
}

namespace {

std::size_t times(Passes passes, std::size_t length) {
  std::size_t same = length;
  while (same < passes.size() && passes[same] == passes[same - length]) ++same;
  return same / length;
}

std::size_t best_group(Passes passes) {
  std::size_t best = 1, most_saved = times(passes, 1) - 1;
  for (std::size_t length = 2; length <= std::min(kLongest, passes.size() / 2); ++length) {
    const std::size_t saved = (times(passes, length) - 1) * length;
    if (saved <= most_saved + 1) continue;  // parentheses take room, too
    most_saved = saved;
    best = length;
  }
  return best;
}

std::string runs(Passes passes) {
  std::string text;
  while (!passes.empty()) {
    const std::size_t number = times(passes, 1);
    if (!text.empty()) text += ' ';
    text += concat(letter(passes[0].kind), passes[0].chunk);
    if (number > 1) text += concat('*', number);
    passes = passes.subspan(number);
  }
  return text;
}

std::string_view next_word(std::string_view& text) {
  std::size_t end = 0;
  if (text.front() == '(') end = std::min(text.find(')'), text.size());
  end = std::min(text.find(' ', end), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

std::pair<std::string_view, int> counted(std::string_view word, int most) {
  const bool is_group = word.front() == '(';
  if (is_group && (word.find(')') == word.npos || word.find('(', 1) != word.npos))
    refuse(word, most);
  const std::size_t end = is_group ? word.find(')') + 1 : std::min(word.find('*'), word.size());
  const std::string_view inner = word.substr(0, end), after = word.substr(end);
  if (after.empty()) return {inner, 1};
  const auto number = after.front() == '*' ? whole(after.substr(1)) : std::nullopt;
  if (!number || *number < 1 || *number > most) refuse(word, most);
  return {inner, *number};
}

Pass parse_pass(std::string_view word) {
  const std::size_t kind = word.empty() ? word.npos : kLetters.find(word.front());
  const auto chunk = word.empty() ? std::nullopt : whole(word.substr(1));
  if (kind == kLetters.npos || !chunk)
    throw InputError(concat("found '", visible(word.substr(0, kShown)),
                            "', but a pass is F, B, I or W with the number of its chunk, as in "
                            "'F0' or 'W3'"));
  return {.kind = static_cast<Pass::Kind>(kind), .chunk = *chunk};
}

void refuse(std::string_view word, int most) {
  throw InputError(concat("found '", visible(word.substr(0, kShown)),
                          word.size() > kShown ? "..." : "",
                          "', must be passes such as 'F0', with a star and how often they are "
                          "repeated (1 to ",
                          most, ") as in 'F0*2' or '(F0 B0)*3'"));
}

std::optional<int> whole(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || number < 0)
    return std::nullopt;
  return number;
}

}  // namespace
}  // namespace trireme::schedule
