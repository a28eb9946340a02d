// SPDX-License-Identifier: Apache-2.0
#include "adapter_targets.h"

#include "foreign_config.h"

#include "trireme/config/huggingface.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <optional>
#include <regex>
#include <set>
#include <utility>

namespace trireme::config {
namespace {

constexpr const char *kTargets = "target_modules", *kExcluded = "exclude_modules",
                     *kLayers = "layers_to_transform", *kPattern = "layers_pattern";
constexpr std::size_t kLongestPattern = 1000;
constexpr int kMostBlock = 1'000'000;
// libstdc++'s matcher without backtracking, which terminates for any pattern of a file.
constexpr std::regex::flag_type kWithoutBacktracking =
    std::regex::ECMAScript | std::regex::nosubs | std::regex_constants::__polynomial;

using Modules = std::vector<std::pair<std::string, std::string>>;

/// Modules, given as a list of names or as a regular expression for whole names.
class ModuleNames {
 public:
  explicit ModuleNames(const io::Node& node);

  bool is_pattern() const { return pattern_.has_value(); }
  const std::vector<io::Node>& list() const { return list_; }
  /// By its whole name.
  bool has(const std::string& module) const;
  /// By its whole name or, in a list, by an end of it.
  bool mean(const std::string& module) const;

 private:
  std::vector<io::Node> list_;
  std::optional<std::regex> pattern_;
};

/// The modules that one adapter_config.json chooses.
class Choice {
 public:
  Choice(const io::Node& config, const ModelSpec& model);

  /// Whether a module of the model has an adapter.
  bool means(const std::string& module, std::optional<int> block) const;
  /// Throws InputError for a name that no linear module of a block has.
  void require_known(const std::set<std::string>& modules, const std::string& known) const;

 private:
  bool is_layer(int block) const;

  bool are_all_ = false;
  std::optional<ModuleNames> targets_, excluded_;
  std::optional<std::set<int>> layers_;
};

int blocks_of(const ModelSpec& model);
bool is_all_linear(const io::Node& node);

}  // namespace

std::vector<std::string> adapter_targets(const io::Node& config, const ModelSpec& model) {
  const Choice choice(config, model);
  const Modules modules = linear_modules(model);
  const int blocks = blocks_of(model);
  std::vector<std::string> known;
  for (const auto& [ours, theirs] : modules) known.push_back(theirs);
  std::set<std::string> names;
  for (int block = 0; block < blocks; ++block)
    for (const std::string& each : known) names.insert(module_of_block(model, block) + each);
  choice.require_known(names, join(known, ", "));

  const auto refuse = [&](const std::string& message) {
    ForeignConfig(config).fail(kTargets, message);
  };
  for (const std::string& other : other_modules(model))
    if (choice.means(other, {}))
      refuse(concat("match ", other, ", too, but only ", join(known, ", "),
                    " can have adapters here"));
  std::vector<std::string> targets;
  for (const auto& [ours, theirs] : modules) {
    const auto has = [&](int block) {
      return choice.means(module_of_block(model, block) + theirs, block);
    };
    for (int block = 1; block < blocks; ++block)
      if (has(block) != has(0))
        refuse(concat("match ", theirs, " in block ", has(block) ? block : 0, ", but not in block ",
                      has(block) ? 0 : block,
                      ": the same modules of every block must have adapters here"));
    if (has(0)) targets.push_back(ours);
  }
  if (targets.empty())
    refuse(concat("match none of the modules that can have adapters here: ", join(known, ", ")));
  return targets;
}

namespace {

ModuleNames::ModuleNames(const io::Node& node) {
  if (node.kind() != io::Node::Kind::kScalar) {
    list_ = node.list();
    return;
  }
  const std::string text = node.text();
  if (text.size() > kLongestPattern)
    node.fail(
        concat("is a pattern of ", text.size(), " characters, must be at most ", kLongestPattern));
  try {
    pattern_.emplace(text, kWithoutBacktracking);
  } catch (const std::regex_error& error) {
    node.fail(concat("is ", node.found(), ", a pattern that is not understood (", error.what(),
                     "): give a list of modules"));
  }
}

bool ModuleNames::has(const std::string& module) const {
  if (pattern_) return std::regex_match(module, *pattern_);
  return std::any_of(list_.begin(), list_.end(),
                     [&](const io::Node& name) { return name.text() == module; });
}

bool ModuleNames::mean(const std::string& module) const {
  return has(module) || std::any_of(list_.begin(), list_.end(), [&](const io::Node& name) {
           return module.ends_with("." + name.text());
         });
}

Choice::Choice(const io::Node& config, const ModelSpec& model) {
  const ForeignConfig keys(config);
  const auto targets = keys.find(kTargets);
  if (!targets) keys.fail(kTargets, "is missing: the modules that have adapters");
  are_all_ = is_all_linear(*targets);
  if (!are_all_) targets_.emplace(*targets);
  const auto excluded = keys.find(kExcluded);
  if (excluded && !(excluded->kind() == io::Node::Kind::kScalar && excluded->text().empty()))
    excluded_.emplace(*excluded);

  const auto layers = keys.find(kLayers);
  if (!layers) return;
  const bool is_one = layers->kind() == io::Node::Kind::kScalar;
  std::set<int> numbers;
  for (const io::Node& each : is_one ? std::vector<io::Node>{*layers} : layers->list())
    numbers.insert(static_cast<int>(each.integer(0, kMostBlock)));
  if (numbers.empty()) return;  // as if it were not there
  layers_ = numbers;
  const auto pattern = keys.find(kPattern);
  if (!pattern) return;
  const std::string ours = std::holds_alternative<GptSpec>(model) ? "h" : "layers";
  const bool is_text = pattern->kind() == io::Node::Kind::kScalar;
  for (const io::Node& each : is_text ? std::vector<io::Node>{*pattern} : pattern->list())
    if (each.text() != ours && !each.text().empty())
      each.fail(concat("is ", each.text(), ", must be ", ours, ", the name of the blocks"));
}

bool Choice::is_layer(int block) const {
  return !layers_ || layers_->contains(block);
}

bool Choice::means(const std::string& module, std::optional<int> block) const {
  if (excluded_ && excluded_->mean(module)) return false;
  // "all-linear" leaves out the head; norms and embeddings are not linear.
  if (are_all_) return block && is_layer(*block);
  if (targets_->is_pattern() || targets_->has(module)) return targets_->has(module);
  // Layer numbers apply only to modules matched by an end of their name.
  return targets_->mean(module) && (block ? is_layer(*block) : !layers_);
}

void Choice::require_known(const std::set<std::string>& modules, const std::string& known) const {
  if (!targets_) return;
  for (const io::Node& name : targets_->list()) {
    const std::string text = name.text();
    if (!std::any_of(modules.begin(), modules.end(), [&](const std::string& module) {
          return module == text || module.ends_with("." + text);
        }))
      name.fail(concat("is ", text, ", but only ", known,
                       " of the model's blocks can have adapters here"));
  }
}

bool is_all_linear(const io::Node& node) {
  if (node.kind() != io::Node::Kind::kScalar) return false;
  std::string text = node.text();
  for (char& each : text) each = static_cast<char>(std::tolower(static_cast<unsigned char>(each)));
  return text == "all-linear";
}

int blocks_of(const ModelSpec& model) {
  return std::visit(
      [](const auto& spec) {
        if constexpr (requires { spec.blocks; })
          return spec.blocks;
        else
          return 0;
      },
      model);
}

}  // namespace
}  // namespace trireme::config
