// Whole programs as text, one action per line.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/program/action.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace trireme::program {
namespace {

/// Most ranks that a text may name: a typo should not exhaust memory.
constexpr int kMostRanks = 1 << 20;

/// Reads a program line by line; errors name the line.
class Reader {
 public:
  void line(std::string_view text);
  Program finish() &&;

 private:
  void head(std::string_view key, std::string_view value);
  void action(std::string_view rank, std::string_view text);
  int whole(std::string_view text, std::string_view what, int most) const;
  [[noreturn]] void refuse(std::string_view why) const;

  Program program_;
  std::vector<std::string> seen_;
  int line_ = 0;
};

std::string_view trimmed(std::string_view text);

const std::vector<std::string>& head_keys();

}  // namespace

bool trains(const Program& program) {
  return std::any_of(program.ranks.begin(), program.ranks.end(), [](const auto& actions) {
    return std::any_of(actions.begin(), actions.end(),
                       [](const Action& action) { return is_backward(action.op); });
  });
}

std::string to_text(const Program& program) {
  std::string text = concat("layers: ", program.layers, "\nmicro_batches: ", program.micro_batches,
                            "\nranks: ", program.ranks.size(), "\nrank_of_layer:");
  for (const int rank : program.rank_of_layer) text += concat(" ", rank);
  text += "\n";
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    const std::string prefix = concat(rank, " | ");
    for (const Action& action : program.ranks[rank]) {
      text += prefix;
      text += to_text(action);
      text += '\n';
    }
  }
  return text;
}

Program parse_program(std::string_view text) {
  Reader reader;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    reader.line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return std::move(reader).finish();
}

namespace {

void Reader::line(std::string_view text) {
  ++line_;
  text = trimmed(text.substr(0, text.find('#')));
  if (text.empty()) return;
  if (const std::size_t bar = text.find('|'); bar != std::string_view::npos) {
    action(trimmed(text.substr(0, bar)), trimmed(text.substr(bar + 1)));
  } else if (const std::size_t colon = text.find(':'); colon != std::string_view::npos) {
    head(trimmed(text.substr(0, colon)), trimmed(text.substr(colon + 1)));
  } else {
    refuse("expected 'RANK | ACTION', such as '0 | 2:backward 3', or a line of the head");
  }
}

void Reader::head(std::string_view key, std::string_view value) {
  const auto& keys = head_keys();
  if (std::find(keys.begin(), keys.end(), key) == keys.end())
    refuse(concat("'", key, "' is not a line of the head", did_you_mean(key, keys)));
  if (std::find(seen_.begin(), seen_.end(), key) != seen_.end())
    refuse(concat("'", key, "' appears twice"));
  seen_.emplace_back(key);
  constexpr int kMost = std::numeric_limits<int>::max();
  if (key == "layers") program_.layers = whole(value, key, kMost);
  if (key == "micro_batches") program_.micro_batches = whole(value, key, kMost);
  if (key == "ranks")
    program_.ranks.resize(static_cast<std::size_t>(whole(value, key, kMostRanks)));
  if (key == "rank_of_layer") {
    for (const std::string& piece : split(value, ' ')) {
      if (!piece.empty()) program_.rank_of_layer.push_back(whole(piece, key, kMostRanks));
    }
  }
}

void Reader::action(std::string_view rank, std::string_view text) {
  if (seen_.size() != head_keys().size())
    refuse(concat("an action before the head is complete; expected ", join(head_keys(), ", "),
                  " first"));
  const auto number = static_cast<std::size_t>(whole(rank, "the rank", kMostRanks));
  if (number >= program_.ranks.size())
    refuse(
        concat("there is no rank ", number, ": the head says ", program_.ranks.size(), " ranks"));
  try {
    program_.ranks[number].push_back(parse_action(text));
  } catch (const InputError& error) {
    refuse(error.what());
  }
}

Program Reader::finish() && {
  for (const std::string& key : head_keys()) {
    if (std::find(seen_.begin(), seen_.end(), key) == seen_.end())
      throw InputError(concat("a program without the line '", key, ": ...' in its head"));
  }
  return std::move(program_);
}

int Reader::whole(std::string_view text, std::string_view what, int most) const {
  int value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end != text.data() + text.size() || value < 0 || value > most)
    refuse(concat(what, " is '", text, "', must be a whole number of 0..", most));
  return value;
}

void Reader::refuse(std::string_view why) const {
  throw InputError(concat("line ", line_, " of a program: ", why));
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

const std::vector<std::string>& head_keys() {
  static const std::vector<std::string> keys = {"layers", "micro_batches", "ranks",
                                                "rank_of_layer"};
  return keys;
}

}  // namespace
}  // namespace trireme::program
