// Strict reading of YAML and JSON: every value knows its file, line and key, every error names
// them, and an unknown key is an error.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme::io {

class Node;

/// A copy of `root` in which `setting` ("section.key=value", the value in YAML) replaces the old
/// value or is added. Errors name the setting: "--set train.steps: ...".
Node with_setting(const Node& root, std::string_view setting);

/// One value of a document with its place. Cheap to copy; keeps its document alive.
///
/// Reading functions throw InputError "FILE:LINE: KEY is FOUND, must be EXPECTED" when the value is
/// not of the requested kind. A quoted value is text: never a number, true or false.
class Node {
 public:
  enum class Kind { kNull, kScalar, kList, kMap };

  Kind kind() const;

  /// "configs/a.yaml:14: pipeline.micro_batches", "configs/a.yaml:1: the document",
  /// "--set pipeline.micro_batches" when the value came from the command line, or of parse_values()
  /// "the job: pipeline.micro_batches".
  std::string where() const;
  /// The dotted key alone ("layers[3].forward_s", counted from 0), "" for the document itself.
  const std::string& key() const;
  /// The document's name: its file as it was given.
  const std::string& source() const;

  /// The same value under a name that says more in messages: "layer 4 (block1.mlp)" for
  /// "layers[3]". The keys below begin with it.
  Node called(std::string_view name) const;

  /// Throws InputError: where() + " " + message.
  [[noreturn]] void fail(std::string_view message) const;
  /// The same for the value at `path` below this one ("train.batch"); where it is missing, the line
  /// is that of the map that would hold it.
  [[noreturn]] void fail_at(std::string_view path, std::string_view message) const;

  /// The value as messages show it: "30", "\"text in quotes\"", "empty", "a list", "a map".
  std::string found() const;

  std::string text() const;  ///< a scalar, as written
  bool boolean() const;      ///< true | false
  std::int64_t integer(std::int64_t least,
                       std::int64_t most) const;   ///< a whole number within the range
  double number(double least, double most) const;  ///< finite and within the range
  Bytes bytes() const;                             ///< "2GiB", 4096; not negative
  Seconds seconds() const;                         ///< "60s", 1.5; not negative
  /// The scalar, which must be one of `choices`; else an error with "did you mean".
  std::string choice(const std::vector<std::string>& choices) const;

  std::vector<Node> list() const;                             ///< elements of a list
  std::vector<std::pair<std::string, Node>> entries() const;  ///< of a map, in file order
  std::optional<Node> find(std::string_view key) const;       ///< of a map

  /// The value as written back, block style, for saving a resolved document.
  std::string to_yaml() const;

  struct Impl;
  explicit Node(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

 private:
  friend Node with_setting(const Node& root, std::string_view setting);

  std::shared_ptr<const Impl> impl_;
};

/// Most values (scalars, lists, maps) of a document, and how deep they may be nested.
inline constexpr std::size_t kMostValues = 4'000'000;
inline constexpr std::size_t kDeepest = 64;

/// Reads a whole file. Errors (no such file, a folder, over `most`, not YAML) name the file and,
/// where there is one, the line. JSON is read by the same function: it is a subset of YAML.
///
/// The subset of YAML: one document, UTF-8, keys are scalars and unique in their map, no tags,
/// anchors or aliases. No document takes more memory than a small multiple of its size.
Node load(const std::filesystem::path& file, Bytes most = Bytes(std::int64_t{256} << 20));

/// Reads `text`; `name` stands for the file in errors.
Node parse(std::string_view text, std::string_view name);
/// The same for a text that a program has made of its values, which no user has seen: errors name
/// `name` and the key, no lines.
Node parse_values(std::string_view text, std::string_view name);

/// `text` as a YAML scalar that reads back as the same text: without quotes where unambiguous, else
/// in double quotes. The quoted form is JSON as well.
std::string yaml_text(std::string_view text);
/// `text` in double quotes, for YAML and JSON.
std::string json_text(std::string_view text);

/// Reads a map key by key and at the end refuses keys that were not asked for:
///
///     MapReader map(node);
///     if (auto n = map.optional("steps")) steps = n->integer(1, 1'000'000'000);
///     map.finish();   // "a.yaml:3: train.stepz is not a key here (did you mean 'steps'?)"
class MapReader {
 public:
  /// Throws InputError unless `node` is a map (an empty value counts as an empty map).
  explicit MapReader(Node node);

  /// Throws InputError if it is missing, naming a key of the map that may have been meant for it.
  Node required(std::string_view key);
  std::optional<Node> optional(std::string_view key);
  /// Throws InputError for the first key of the map that neither call above has named.
  void finish() const;
  /// For a missing key: ", but there is 'modle'" if the map has a similar key that neither call
  /// above has named, else nothing.
  std::string lookalike(std::string_view key) const;

  const Node& node() const { return node_; }

 private:
  Node node_;
  std::vector<std::string> asked_;
};

}  // namespace trireme::io
