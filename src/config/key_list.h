// Lists all keys of a section, including those of its other kinds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "range.h"

#include "trireme/core/text.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace trireme::config {

/// A key whose value is a choice, one of the words that it allows, and its current word.
struct Choice {
  std::string key, word, now;
};

/// What a section would need to have some key: `key` with one of `words` instead of `now`.
struct NeededWord {
  std::string key, now;
  std::vector<std::string> words;
};

/// Collects the keys that walk() visits; those of sections below as "optimizer.kind".
class KeyList {
 public:
  /// Lists the keys that the section has after applying `set`.
  explicit KeyList(std::optional<Choice> set = std::nullopt) : set_(std::move(set)) {}

  template <class... Field>
  void operator()(std::string_view key, Field&&... field) {
    keys_.emplace_back(key);
    using Types = std::tuple<std::remove_cvref_t<Field>...>;
    if constexpr (std::is_same_v<Types, std::tuple<std::string, OneOf>>) choose(key, field...);
  }
  template <class Section>
  void section(std::string_view key, Section& value);

  bool has(std::string_view key) const {
    return std::find(keys_.begin(), keys_.end(), key) != keys_.end();
  }
  const std::vector<std::string>& keys() const { return keys_; }
  const std::vector<Choice>& choices() const { return choices_; }

 private:
  void choose(std::string_view key, std::string& value, const OneOf& choices) {
    for (const std::string& choice : choices) choices_.push_back({std::string(key), choice, value});
    if (set_ && set_->key == key) value = set_->word;
  }

  std::optional<Choice> set_;
  std::vector<std::string> keys_;
  std::vector<Choice> choices_;
};

template <class Section>
KeyList keys_of(Section section, std::optional<Choice> set = std::nullopt) {
  KeyList list(std::move(set));
  walk(list, section);
  return list;
}

/// All keys that `section` may have, for any of its choices.
template <class Section>
std::vector<std::string> all_keys_of(const Section& section) {
  const KeyList own = keys_of(section);
  std::vector<std::string> keys = own.keys();
  for (const Choice& choice : own.choices()) {
    const KeyList other = keys_of(section, choice);
    for (const std::string& key : other.keys())
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
  }
  return keys;
}

template <class Section>
void KeyList::section(std::string_view key, Section& value) {
  keys_.emplace_back(key);
  for (const std::string& below : all_keys_of(value)) keys_.push_back(concat(key, ".", below));
}

/// What `section` would need to have `key`; nothing where it never has such a key.
template <class Section>
std::optional<NeededWord> needed_for(std::string_view key, const Section& section) {
  std::optional<NeededWord> needed;
  const KeyList own = keys_of(section);
  for (const Choice& choice : own.choices()) {
    if ((needed && needed->key != choice.key) || !keys_of(section, choice).has(key)) continue;
    if (!needed) needed = NeededWord{choice.key, choice.now, {}};
    needed->words.push_back(choice.word);
  }
  return needed;
}

}  // namespace trireme::config
