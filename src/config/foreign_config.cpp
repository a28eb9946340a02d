// SPDX-License-Identifier: Apache-2.0
#include "foreign_config.h"

#include "trireme/core/text.h"

#include <algorithm>

namespace trireme::config {
namespace {

constexpr std::int64_t kMost = 100'000'000;

}  // namespace

std::optional<io::Node> ForeignConfig::find(std::string_view key) const {
  const auto found = node_.find(key);
  return found && found->kind() == io::Node::Kind::kNull ? std::nullopt : found;
}

std::optional<int> ForeignConfig::whole(std::string_view key) const {
  const auto found = find(key);
  if (!found) return std::nullopt;
  return static_cast<int>(found->integer(1, kMost));
}

int ForeignConfig::count(std::string_view key, int fallback) const {
  const auto found = find(key);
  return found ? static_cast<int>(found->integer(0, kMost)) : fallback;
}

double ForeignConfig::number(std::string_view key, double fallback) const {
  const auto found = find(key);
  return found ? found->number(0, 1e12) : fallback;
}

bool ForeignConfig::flag(std::string_view key, bool fallback) const {
  const auto found = find(key);
  return found ? found->boolean() : fallback;
}

void ForeignConfig::require(std::string_view key, const std::vector<std::string>& known) const {
  const auto found = find(key);
  if (!found || std::find(known.begin(), known.end(), found->text()) != known.end()) return;
  found->fail(concat("is ", found->text(), ", but only ", join(known, " or "), " is supported here",
                     ": these weights would not mean the same"));
}

void ForeignConfig::require_whole(std::string_view key, int expected) const {
  const std::optional<int> found = whole(key);
  if (found && *found != expected)
    fail(key, concat("is ", *found, ", must be ", expected, " for the model here"));
}

void ForeignConfig::require_entries(std::string_view key, int blocks) const {
  const auto found = find(key);
  if (found && !std::cmp_equal(found->list().size(), blocks))
    fail(key, concat("has ", found->list().size(), " entries, but the model has ", blocks,
                     " blocks: must have one for each"));
}

}  // namespace trireme::config
