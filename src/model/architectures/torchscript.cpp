// Models whose layers were written in Python and saved by torch.jit: one module per layer.
// SPDX-License-Identifier: Apache-2.0
#include "architectures/script_layer.h"

#include "trireme/core/digest.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/io/file.h"
#include "trireme/io/pieces.h"
#include "trireme/model/chain.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>
#include <variant>
#include <vector>

namespace trireme::model {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_of(const config::TorchScriptSpec& spec);
/// For every file, the ties of its layer's parameters. Throws InputError for places that do not
/// exist, or that cannot be one weight.
std::vector<std::map<std::string, std::string>> ties_of(const config::TorchScriptSpec& spec,
                                                        const std::vector<fs::path>& files);

}  // namespace

ChainModel make_torchscript(const config::TorchScriptSpec& spec) {
  ChainModel model{.name = "torchscript",
                   .layers = {},
                   .input = InputKind::kTokens,
                   .input_size = spec.context,
                   .classes = spec.classes,
                   .code = files_digest(spec)};
  if (spec.takes == "vectors") {
    model.input = InputKind::kVectors;
    model.input_size = spec.inputs;
  } else if (spec.takes == "images") {
    model.input = InputKind::kImages;
    model.image = {.channels = spec.channels, .height = spec.image_size, .width = spec.image_size};
    model.input_size = model.image.size();
  }
  model.takes_masked_targets = spec.masked_targets;
  const std::vector<fs::path> files = files_of(spec);
  const auto ties = ties_of(spec, files);
  bool is_trained_so_far = false;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const fs::path& file = files[i];
    const ScriptContents contents = contents_of_script(file);
    const ScriptOptions options{.is_last = i + 1 == files.size(), .ties = ties[i]};
    model.layers.push_back({.name = file.stem().string(),
                            .work = static_cast<double>(io::InputFile(file).size().count()),
                            .build = [file, options](const Seeds&) -> std::unique_ptr<Layer> {
                              return std::make_unique<ScriptLayer>(file, options);
                            },
                            .has_frozen = contents.has_frozen,
                            .ends_backward = !is_trained_so_far,
                            .may_vary = true});
    is_trained_so_far = is_trained_so_far || contents.has_trained;
    model.has_batch_norm = model.has_batch_norm || contents.has_batch_norm;
  }
  if (!is_trained_so_far)
    throw InputError(
        "model.files: no layer has a parameter that needs a gradient, so that nothing would be "
        "trained: save modules whose parameters have requires_grad");
  return model;
}

std::string files_digest(const config::ModelSpec& spec) {
  const auto* const script = std::get_if<config::TorchScriptSpec>(&spec);
  if (script == nullptr) return {};
  std::string all;
  for (const fs::path& file : files_of(*script))
    all += concat(file.stem().string(), ' ', digest(io::read_file(file)), '\n');
  return digest(all);
}

namespace {

std::vector<fs::path> files_of(const config::TorchScriptSpec& spec) {
  std::vector<fs::path> files;
  for (const std::string& pattern : spec.files) {
    const std::vector<fs::path> matched = io::expand(pattern);
    if (matched.empty()) throw InputError(concat("model.files: nothing matches ", pattern));
    files.insert(files.end(), matched.begin(), matched.end());
  }
  std::map<std::string, fs::path> names;
  for (const fs::path& file : files) {
    std::error_code none;
    if (!fs::is_regular_file(file, none))
      throw InputError(concat("model.files: ", file.string(), " is no file"));
    const auto [known, is_new] = names.emplace(file.stem().string(), file);
    if (!is_new && known->second == file)
      throw InputError(
          concat("model.files: ", file.string(), " is named by two patterns: a file is one layer"));
    if (!is_new)
      throw InputError(concat("model.files: ", known->second.string(), " and ", file.string(),
                              " would both be layer '", known->first,
                              "': give every layer a name of its own"));
  }
  return files;
}

/// A weight and its place in the chain.
struct Use {
  std::string place, name;
  std::size_t layer = 0;
  Parameter parameter = {};
};

[[noreturn]] void refuse_tie(const std::string& message) {
  throw InputError(concat("model.tied: ", message));
}

Use use_at(const std::string& place, const std::vector<fs::path>& files) {
  const std::size_t slash = place.find('/');
  const std::string layer = place.substr(0, slash);
  const auto file = std::find_if(files.begin(), files.end(),
                                 [&](const fs::path& one) { return one.stem() == layer; });
  if (slash == std::string::npos || file == files.end())
    refuse_tie(concat("'", place,
                      "' is no place of a weight, must be LAYER/PARAMETER with a layer "
                      "of model.files, which are called ",
                      files.front().stem().string(), " to ", files.back().stem().string()));
  Use use{.place = place,
          .name = place.substr(slash + 1),
          .layer = static_cast<std::size_t>(file - files.begin())};
  const ScriptLayer built(*file, {});
  std::vector<std::string> names;
  for (const Parameter& parameter : built.parameters()) {
    names.push_back(parameter.name);
    if (parameter.name == use.name) use.parameter = parameter;
  }
  if (!use.parameter.value.defined())
    refuse_tie(concat("'", place, "': ", file->string(), " has no parameter '", use.name,
                      names.empty() ? "', and no other" : "', only ", join(names, ", ")));
  return use;
}

/// Throws InputError if two uses cannot be one weight.
void require_alike(const Use& first, const Use& other) {
  const at::Tensor &a = first.parameter.value, &b = other.parameter.value;
  if (other.layer < first.layer)
    refuse_tie(concat("names ", other.place, " after ", first.place,
                      ", must name uses in the order of the layers"));
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type())
    refuse_tie(concat(first.place, " is ", a.scalar_type(), ' ', a.sizes(), ", but ", other.place,
                      " is ", b.scalar_type(), ' ', b.sizes(), ": one weight has one size"));
  if (first.parameter.is_trained != other.parameter.is_trained)
    refuse_tie(concat("one of ", first.place, " and ", other.place,
                      " is frozen, the other is trained: both, or none"));
  if (!at::equal(a.detach(), b.detach()))
    refuse_tie(concat(first.place, " and ", other.place,
                      " begin with other values: tie the weights in Python before the layers are "
                      "saved, so that both files hold the same"));
}

std::vector<std::map<std::string, std::string>> ties_of(const config::TorchScriptSpec& spec,
                                                        const std::vector<fs::path>& files) {
  std::vector<std::map<std::string, std::string>> ties(files.size());
  for (const std::vector<std::string>& places : spec.tied) {
    std::vector<Use> uses;
    for (const std::string& place : places) uses.push_back(use_at(place, files));
    for (std::size_t i = 0; i < uses.size(); ++i) {
      if (i > 0) require_alike(uses[i - 1], uses[i]);
      ties[uses[i].layer][uses[i].name] = uses.front().place;
    }
  }
  return ties;
}

}  // namespace
}  // namespace trireme::model
