// SPDX-License-Identifier: Apache-2.0
#include "read_model.h"

#include "built_in.h"
#include "field_reader.h"
#include "model_lines.h"
#include "sections.h"

#include "trireme/config/adapters.h"
#include "trireme/config/huggingface.h"
#include "trireme/core/text.h"
#include "trireme/io/file.h"

#include <algorithm>
#include <optional>
#include <set>
#include <type_traits>

namespace trireme::config {
namespace {

constexpr const char *kKind = "kind", *kWeights = "weights", *kAdapters = "adapters";
constexpr Bytes kMaxConfig{1 << 20};
/// Keys that do not change what weights mean.
const std::set<std::string, std::less<>> kFree{"context",      "dropout",   "grain",
                                               "loss_chunks",  "lora_rank", "lora_alpha",
                                               "lora_targets", "trained"};

/// The model that the config.json of the weights describes; nothing where there is none.
std::optional<ModelSpec> said_by(const std::string& weights);
/// Throws InputError: neither the job nor its weights say which kind the model is.
[[noreturn]] void refuse_unknown(const io::Node& document, const std::optional<io::Node>& weights,
                                 const std::vector<std::string>& kinds);
/// The built-in model of this kind with its defaults; else one that user code registered.
ModelSpec built_in(const std::string& kind, const io::Node& section);
/// The built-in kinds that have a key, if any does; `now` is the current kind.
std::optional<NeededWord> kinds_with(const std::string& key, const std::string& now);
/// Reads the keys that stand in `section`.
void read_keys(const io::Node& section, ModelSpec& into);
/// Throws InputError for a key of `section` that makes `read` another model than that of the
/// weights.
void require_same(const io::Node& section, const ModelSpec& read, const ModelSpec& weights);
/// Gives the model the adapters of the folder that `adapters` names.
void take_up_adapters(const io::Node& section, const io::Node& adapters, JobSpec& into);
/// Throws InputError for a key about adapters where there are none. With an explicit lora_rank: 0
/// such keys are ignored.
void require_rank(const io::Node& section, const ModelSpec& model);

}  // namespace

void read_model(const io::Node& document, const LoadOptions& options, JobSpec& into) {
  const auto section = io::MapReader(document).optional("model");
  const auto find = [&](std::string_view key) {
    return section ? io::MapReader(*section).optional(key) : std::nullopt;
  };
  const auto weights = find(kWeights), kind = find(kKind), adapters = find(kAdapters);
  for (const std::optional<io::Node>& path : {weights, adapters})
    if (path)
      if (const auto why = io::unexpanded(path->text())) path->fail(*why);
  if (weights) into.weights = weights->text();
  const std::optional<ModelSpec> said = said_by(into.weights);

  std::vector<std::string> kinds;
  for_each_built_in([&](const auto& spec) { kinds.emplace_back(kind_of(spec)); });
  kinds.insert(kinds.end(), options.own_models.begin(), options.own_models.end());
  if (!kind && !said) refuse_unknown(document, weights, kinds);
  into.model = said ? *said : built_in(kind->choice(kinds), *section);
  if (said && kind && kind->choice(kinds) != kind_of(*said))
    kind->fail(concat("is ", kind->text(), ", but the weights in ", into.weights, " are of a ",
                      kind_of(*said)));
  if (weights && std::holds_alternative<OwnModelSpec>(into.model))
    weights->fail("is for the built-in kinds: your own layers set their parameters themselves");
  read_keys(*section, into.model);
  if (said) require_same(*section, into.model, *said);
  if (adapters) take_up_adapters(*section, *adapters, into);
  require_rank(*section, into.model);
}

namespace {

/// Checks the ranges of the fields, as if a job had set them.
void require_ranges(ModelSpec spec, const std::filesystem::path& config) {
  read_keys(io::parse(model_lines(spec), concat(config.string(), ", in this job's words")), spec);
}

std::optional<ModelSpec> said_by(const std::string& weights) {
  std::error_code none;
  const std::filesystem::path config = std::filesystem::path(weights) / kHuggingFaceFile;
  if (weights.empty() || !std::filesystem::exists(config, none)) return std::nullopt;
  ModelSpec spec = read_huggingface(io::load(config, kMaxConfig));
  require_ranges(spec, config);
  return spec;
}

void refuse_unknown(const io::Node& document, const std::optional<io::Node>& weights,
                    const std::vector<std::string>& kinds) {
  std::error_code none;
  if (weights && !std::filesystem::exists(weights->text(), none))
    weights->fail(concat("is ", weights->found(),
                         ", which does not exist: name a folder of weights with their ",
                         kHuggingFaceFile, ", or a file of them and model.kind"));
  if (weights && std::filesystem::is_directory(weights->text(), none))
    weights->fail(concat("is ", weights->found(), ", a folder without the ", kHuggingFaceFile,
                         " that says what its weights are of: name another one, or give "
                         "model.kind and its sizes"));
  io::MapReader sections(document);
  const auto section = sections.optional("model");
  const std::string lookalike =
      section ? io::MapReader(*section).lookalike(kKind) : sections.lookalike("model");
  document.fail_at("model.kind",
                   concat("is missing", lookalike, ", must be one of ", join(kinds, ", ")));
}

ModelSpec built_in(const std::string& kind, const io::Node& section) {
  ModelSpec found = OwnModelSpec{kind, section};
  for_each_built_in([&](const auto& spec) {
    if (kind_of(spec) == kind) found = spec;
  });
  return found;
}

std::optional<NeededWord> kinds_with(const std::string& key, const std::string& now) {
  NeededWord needed{kKind, now, {}};
  for_each_built_in([&](const auto& spec) {
    const std::vector<std::string> keys = all_keys_of(spec);
    if (std::find(keys.begin(), keys.end(), key) != keys.end())
      needed.words.emplace_back(kind_of(spec));
  });
  return needed.words.empty() ? std::nullopt : std::optional(needed);
}

void read_keys(const io::Node& section, ModelSpec& into) {
  std::visit(
      [&]<class Spec>(Spec& spec) {
        if constexpr (!std::is_same_v<Spec, OwnModelSpec>) {
          FieldReader fields(section);
          fields.find(kKind);
          fields.find(kWeights);
          if constexpr (requires { spec.lora_rank; }) fields.find(kAdapters);
          walk(fields, spec);
          fields.finish(spec,
                        [&](const std::string& key) { return kinds_with(key, kind_of(into)); });
        }
      },
      into);
}

void require_same(const io::Node& section, const ModelSpec& read, const ModelSpec& weights) {
  const io::Node mine = io::parse(model_lines(read), "this job");
  const io::Node theirs = io::parse(model_lines(weights), "the weights");
  for (const auto& [key, node] : section.entries()) {
    if (key == kWeights || key == kAdapters || kFree.contains(key)) continue;
    const std::optional<io::Node> there = theirs.find(key);
    if (!there) node.fail(concat("is ", node.found(), ", but the weights have none: leave it out"));
    if (mine.find(key)->to_yaml() != there->to_yaml())
      node.fail(
          concat("is ", node.found(), ", but the weights have ", there->found(), ": leave it out"));
  }
}

template <class Spec>
void take_up_adapters(const io::Node& section, const Adapters& read, Spec& spec, JobSpec& into) {
  const auto require = [&](const char* key, bool is_same, const std::string& there) {
    const auto node = io::MapReader(section).optional(key);
    if (node && !is_same)
      node->fail(concat("is ", node->found(), ", but the adapters in ", into.adapters, " have ",
                        there, ": leave it out"));
  };
  require("lora_rank", spec.lora_rank == read.rank, concat(read.rank));
  require("lora_alpha", spec.lora_alpha == read.alpha, to_text(read.alpha));
  spec.lora_rank = read.rank;
  spec.lora_alpha = read.alpha;
  require("lora_targets", adapters_of(into.model)->targets == read.targets,
          join(read.targets, ", "));
  spec.lora_targets = read.targets;
}

void take_up_adapters(const io::Node& section, const io::Node& adapters, JobSpec& into) {
  const auto take_up = [&](auto& spec) {
    if constexpr (requires { spec.lora_rank; }) {
      into.adapters = adapters.text();
      if (into.weights.empty())
        adapters.fail("need the weights that they were made for: name them in model.weights");
      const std::filesystem::path file = std::filesystem::path(into.adapters) / kAdaptersFile;
      // A run that resumes from its checkpoint has the settings of its adapters: the folder may be
      // gone.
      std::error_code none;
      if (spec.lora_rank > 0 && !std::filesystem::exists(file, none)) return;
      take_up_adapters(section, read_adapters(io::load(file, kMaxConfig), into.model), spec, into);
    }
  };
  std::visit(take_up, into.model);
}

void require_rank(const io::Node& section, const ModelSpec& model) {
  const auto require = [&](const auto& spec) {
    if constexpr (requires { spec.lora_rank; }) {
      if (spec.lora_rank > 0 || section.find("lora_rank")) return;
      for (const char* const key : {"lora_alpha", "lora_targets"})
        if (const auto node = section.find(key))
          node->fail(concat("is ", node->found(),
                            ", but there are no adapters: needs model.lora_rank above 0"));
    }
  };
  std::visit(require, model);
}

}  // namespace
}  // namespace trireme::config
