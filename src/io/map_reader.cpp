// SPDX-License-Identifier: Apache-2.0
#include "trireme/core/text.h"
#include "trireme/io/node.h"

#include <algorithm>

namespace trireme::io {
namespace {

/// " (did you mean 'steps'?)", or the keys there are.
std::string hint(std::string_view key, const std::vector<std::string>& known);

}  // namespace

MapReader::MapReader(Node node) : node_(std::move(node)) {
  if (node_.kind() != Node::Kind::kMap && node_.kind() != Node::Kind::kNull)
    node_.fail(concat("is ", node_.found(), ", must be a map (key: value)"));
}

Node MapReader::required(std::string_view key) {
  if (auto node = optional(key)) return *std::move(node);
  node_.fail_at(key, concat("is missing", lookalike(key)));
}

std::optional<Node> MapReader::optional(std::string_view key) {
  asked_.emplace_back(key);
  if (node_.kind() == Node::Kind::kNull) return std::nullopt;
  return node_.find(key);
}

void MapReader::finish() const {
  if (node_.kind() == Node::Kind::kNull) return;
  for (const auto& [key, node] : node_.entries()) {
    if (std::find(asked_.begin(), asked_.end(), key) == asked_.end())
      node.fail(concat("is not a key here", hint(key, asked_)));
  }
}

std::string MapReader::lookalike(std::string_view key) const {
  if (node_.kind() != Node::Kind::kMap) return "";
  std::vector<std::string> unasked;
  for (const auto& [name, node] : node_.entries())
    if (std::find(asked_.begin(), asked_.end(), name) == asked_.end()) unasked.push_back(name);
  const std::string nearest = nearest_word(key, unasked);
  return nearest.empty() ? "" : concat(", but there is '", nearest, "'");
}

namespace {

std::string hint(std::string_view key, const std::vector<std::string>& known) {
  std::string nearest = did_you_mean(key, known);
  return nearest.empty() ? concat(" (known: ", join(known, ", "), ")") : nearest;
}

}  // namespace
}  // namespace trireme::io
