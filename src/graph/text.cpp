// Schedules as text: one action a line for people, one line of words for a device.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/core/text.h"

#include "trireme/core/error.h"
#include "trireme/core/visible.h"
#include "trireme/graph/schedule.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace trireme::graph {
namespace {

struct OpName {
  Op op;
  std::string_view word;
  char letter;
};
constexpr std::array<OpName, 4> kOps = {{{Op::kCompute, "compute", 'c'},
                                         {Op::kCopyOut, "copy_out", 'o'},
                                         {Op::kCopyIn, "copy_in", 'i'},
                                         {Op::kDrop, "drop", 'd'}}};
constexpr char kDropLetter = 'd', kKeepLetter = 'k';
constexpr std::string_view kBlank = " \t\r\n";

const OpName& name_of(Op op);

/// A letter with a node: an action, or a value that is kept where it would be dropped.
struct Word {
  char letter;
  int node;
};

/// Actions without drops, and what is dropped before the first and after each, in order.
struct Parts {
  Schedule actions;
  std::vector<std::vector<int>> drops = std::vector<std::vector<int>>(1);
};

/// By place of `actions`, the values that nothing needs after it, until they are computed or copied
/// in again; ascending.
std::vector<std::vector<int>> ends_of(const Schedule& actions, const Graph& graph);
/// What has to be written for a place where `ended` would be dropped and `dropped` are.
void add_words(std::vector<Word>& words, const std::vector<int>& ended,
               const std::vector<int>& dropped);
std::string text_of(const std::vector<Word>& words);

/// A piece of text with its place in errors: "line 3 of a schedule".
struct Piece {
  std::string_view text;
  std::string place;
};
[[noreturn]] void refuse(const Piece& piece, std::string_view why);

/// Lines without comments and blanks; with their numbers.
std::vector<Piece> lines_of(std::string_view text);
std::vector<Piece> words_of(const std::vector<Piece>& lines);
bool is_long(const Piece& line);
Action parse_line(const Piece& line, const Graph& graph);
Schedule parse_words(const std::vector<Piece>& pieces, const Graph& graph);
Op op_of(const Piece& word);
/// First and last node of "c3-7", or twice the node of "c3".
std::pair<int, int> parse_run(const Piece& word, const Graph& graph);
int parse_node(const Piece& piece, std::string_view text, const Graph& graph);
void require_room(const Piece& piece, std::size_t actions);

}  // namespace

std::string to_text(const Schedule& schedule, const Graph& graph) {
  std::string text;
  for (const Action& action : schedule)
    text += concat(name_of(action.op).word, " ", action.node, "  # ", graph.node(action.node).name,
                   "\n");
  return text;
}

std::string to_compact(const Schedule& schedule, const Graph& graph) {
  Parts parts;
  for (const Action& action : schedule) {
    if (action.op == Op::kDrop) {
      parts.drops.back().push_back(action.node);
    } else {
      parts.actions.push_back(action);
      parts.drops.emplace_back();
    }
  }
  const std::vector<std::vector<int>> ends = ends_of(parts.actions, graph);
  std::vector<Word> words;
  add_words(words, {}, parts.drops[0]);
  for (std::size_t at = 0; at < parts.actions.size(); ++at) {
    words.push_back({name_of(parts.actions[at].op).letter, parts.actions[at].node});
    add_words(words, ends[at], parts.drops[at + 1]);
  }
  return text_of(words);
}

Schedule parse_schedule(std::string_view text, const Graph& graph) {
  const std::vector<Piece> lines = lines_of(text);
  if (lines.empty() || !is_long(lines.front())) return parse_words(words_of(lines), graph);
  Schedule schedule;
  for (const Piece& line : lines) {
    require_room(line, schedule.size() + 1);
    schedule.push_back(parse_line(line, graph));
  }
  return schedule;
}

namespace {

const OpName& name_of(Op op) {
  return *std::find_if(kOps.begin(), kOps.end(), [&](const OpName& name) { return name.op == op; });
}

std::vector<std::vector<int>> ends_of(const Schedule& actions, const Graph& graph) {
  constexpr auto kNone = static_cast<std::size_t>(-1);
  std::vector<std::vector<int>> ends(actions.size());
  std::vector<std::size_t> last_need(graph.nodes.size(), kNone);  // none before it is made
  const auto end = [&](int node) {
    const std::size_t at = last_need[static_cast<std::size_t>(node)];
    if (at != kNone) ends[at].push_back(node);
  };
  const auto need = [&](int node, std::size_t at) {
    std::size_t& last = last_need[static_cast<std::size_t>(node)];
    if (last != kNone) last = at;
  };
  for (std::size_t at = 0; at < actions.size(); ++at) {
    const auto [op, node] = actions[at];
    if (op == Op::kCompute)
      for (const int input : graph.node(node).inputs) need(input, at);
    if (op == Op::kCopyOut) {
      need(node, at);
    } else {
      end(node);
      last_need[static_cast<std::size_t>(node)] = at;
    }
  }
  for (int node = 0; node < graph.size(); ++node) end(node);
  for (std::vector<int>& nodes : ends) std::sort(nodes.begin(), nodes.end());
  return ends;
}

void add_words(std::vector<Word>& words, const std::vector<int>& ended,
               const std::vector<int>& dropped) {
  const auto is_dropped = [&](int node) {
    return std::find(dropped.begin(), dropped.end(), node) != dropped.end();
  };
  std::vector<int> kept, rest;
  for (const int node : ended) (is_dropped(node) ? rest : kept).push_back(node);
  // In another order: all are written.
  if (!std::equal(rest.begin(), rest.end(), dropped.begin(),
                  dropped.begin() + std::min(std::ssize(rest), std::ssize(dropped)))) {
    kept = ended;
    rest.clear();
  }
  for (const int node : kept) words.push_back({kKeepLetter, node});
  for (std::size_t k = rest.size(); k < dropped.size(); ++k)
    words.push_back({kDropLetter, dropped[k]});
}

std::string text_of(const std::vector<Word>& words) {
  std::string text;
  for (std::size_t first = 0, last = 0; first < words.size(); first = ++last) {
    while (last + 1 < words.size() && words[last + 1].letter == words[first].letter &&
           words[last + 1].node == words[last].node + 1)
      ++last;
    if (!text.empty()) text += ' ';
    text += concat(words[first].letter, words[first].node);
    if (last > first) text += concat('-', words[last].node);
  }
  return text;
}

void refuse(const Piece& piece, std::string_view why) {
  constexpr std::size_t kMost = 60;
  throw InputError(concat(piece.place, " of a schedule is '", visible(piece.text.substr(0, kMost)),
                          piece.text.size() > kMost ? "...', " : "', ", why));
}

std::vector<Piece> lines_of(std::string_view text) {
  std::vector<Piece> lines;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line = line.substr(0, line.find('#'));
    const std::size_t begin = line.find_first_not_of(kBlank);
    if (begin == std::string_view::npos) continue;
    line = line.substr(begin, line.find_last_not_of(kBlank) - begin + 1);
    lines.push_back({line, concat("line ", number)});
  }
  return lines;
}

std::vector<Piece> words_of(const std::vector<Piece>& lines) {
  std::vector<Piece> words;
  for (const Piece& line : lines) {
    std::string_view rest = line.text;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find_first_of(kBlank), rest.size());
      words.push_back({rest.substr(0, end), concat("word ", words.size() + 1)});
      rest.remove_prefix(std::min(rest.find_first_not_of(kBlank, end), rest.size()));
    }
  }
  return words;
}

/// Words of the compact form have a digit after their letter.
bool is_long(const Piece& line) {
  constexpr std::string_view kDigits = "0123456789";
  return line.text.size() > 1 && kDigits.find(line.text[1]) == std::string_view::npos;
}

Action parse_line(const Piece& line, const Graph& graph) {
  const std::size_t end = std::min(line.text.find_first_of(kBlank), line.text.size());
  const std::string_view word = line.text.substr(0, end);
  const auto name = std::find_if(kOps.begin(), kOps.end(),
                                 [&](const OpName& known) { return known.word == word; });
  if (name == kOps.end() || end == line.text.size())
    refuse(line, "must be compute, copy_out, copy_in or drop, and a node, such as 'compute 3'");
  const std::size_t node = line.text.find_first_not_of(kBlank, end);
  return {name->op, parse_node(line, line.text.substr(node), graph)};
}

Schedule parse_words(const std::vector<Piece>& pieces, const Graph& graph) {
  struct Change {
    const Piece* piece;
    std::size_t after;  // as many actions
    Word word;
  };
  Schedule actions;
  std::vector<Change> changes;
  for (const Piece& piece : pieces) {
    const char letter = piece.text.front();
    const auto [first, last] = parse_run(piece, graph);
    require_room(piece,
                 actions.size() + changes.size() + static_cast<std::size_t>(last - first) + 1);
    for (int node = first; node <= last; ++node) {
      if (letter == kKeepLetter || letter == kDropLetter)
        changes.push_back({&piece, actions.size(), {letter, node}});
      else
        actions.push_back({op_of(piece), node});
    }
  }

  std::vector<std::vector<int>> drops = ends_of(actions, graph);
  drops.insert(drops.begin(), std::vector<int>());
  for (const auto& [piece, after, word] : changes) {
    if (word.letter == kDropLetter)
      drops[after].push_back(word.node);
    else if (std::erase(drops[after], word.node) == 0)
      refuse(*piece, concat("must name values that would be dropped here, and ", word.node,
                            " would not: it is needed later, or is not in memory"));
  }
  Schedule schedule;
  for (std::size_t after = 0; after < drops.size(); ++after) {
    if (after > 0) schedule.push_back(actions[after - 1]);
    for (const int node : drops[after]) schedule.push_back({Op::kDrop, node});
  }
  return schedule;
}

Op op_of(const Piece& word) {
  const auto name = std::find_if(kOps.begin(), kOps.end(), [&](const OpName& known) {
    return known.letter == word.text.front();
  });
  if (name == kOps.end())
    refuse(word, "must be one of c, o, i, d, k and a node, such as c3 or c3-7");
  return name->op;
}

std::pair<int, int> parse_run(const Piece& word, const Graph& graph) {
  const std::string_view nodes = word.text.substr(1);
  const std::size_t dash = nodes.find('-');
  const int first = parse_node(word, nodes.substr(0, dash), graph);
  if (dash == std::string_view::npos) return {first, first};
  const int last = parse_node(word, nodes.substr(dash + 1), graph);
  if (last <= first) refuse(word, "must be a run of ascending nodes, such as c3-7");
  return {first, last};
}

int parse_node(const Piece& piece, std::string_view text, const Graph& graph) {
  int node = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, failure] = std::from_chars(text.data(), end, node);
  if (failure != std::errc{} || rest != end || node < 0 || node >= graph.size())
    refuse(piece, concat("must name a node from 0 to ", graph.size() - 1));
  return node;
}

void require_room(const Piece& piece, std::size_t actions) {
  if (actions > kMaxActions)
    refuse(piece, concat("must not be there: it is action ", actions,
                         ", and a schedule has at most ", kMaxActions));
}

}  // namespace
}  // namespace trireme::graph
