// SPDX-License-Identifier: Apache-2.0
#include "run/trained.h"

#include "trireme/config/adapters.h"
#include "trireme/core/text.h"
#include "trireme/model/kinds.h"

#include <algorithm>
#include <variant>

namespace trireme::model {
namespace {

/// Whether a pattern may match one block and not another, given that block names differ only in
/// their numbers.
bool tells_blocks_apart(const std::string& pattern) {
  return pattern.find_first_of("0123456789?[") != std::string::npos;
}

std::vector<std::string> asked_for(const config::ModelSpec& model) {
  return std::visit(
      [](const auto& spec) {
        if constexpr (requires { spec.trained; })
          return spec.trained;
        else
          return std::vector<std::string>();
      },
      model);
}

/// The places of every layer's parameters. Builds one layer of each kind.
std::vector<std::vector<std::string>> places_of(const ChainModel& model,
                                                const config::WeightNames& names) {
  auto places = of_every_layer(model, [](const Layer& layer) {
    std::vector<std::string> of_layer;
    for (const Parameter& parameter : layer.parameters()) of_layer.push_back(parameter.name);
    return of_layer;
  });
  for (std::size_t i = 0; i < places.size(); ++i)
    for (std::string& place : places[i]) place = names.place_of(model.layers[i].name, place);
  return places;
}

}  // namespace

void require_trained(const ChainModel& model, const config::JobSpec& job) {
  const std::vector<std::string> patterns = asked_for(job.model);
  if (patterns.empty()) return;
  std::vector<std::string> places;
  for (const auto& of_layer : places_of(model, config::WeightNames(job.model)))
    places.insert(places.end(), of_layer.begin(), of_layer.end());
  for (const std::string& pattern : patterns) {
    const auto is_meant = [&](const std::string& place) { return config::matches(pattern, place); };
    if (std::any_of(places.begin(), places.end(), is_meant)) continue;
    job.fail(
        "model.trained",
        concat("has '", pattern, "', which matches no parameter; they are called ", places.front(),
               ", ", places.at(places.size() / 2), ", ", places.at(places.size() - 2)));
  }
}

void train_only(ChainModel& model, const std::vector<std::string>& patterns,
                const config::WeightNames& names) {
  const bool are_alike = std::none_of(patterns.begin(), patterns.end(), tells_blocks_apart);
  const auto places = places_of(model, names);
  bool is_frozen_so_far = true;
  for (std::size_t i = 0; i < places.size(); ++i) {
    LayerRecipe& recipe = model.layers[i];
    recipe.ends_backward = is_frozen_so_far;
    for (const std::string& place : places[i])
      is_frozen_so_far = is_frozen_so_far && !config::matches_one(place, patterns);
    const auto is_trained = [names, patterns, layer = recipe.name](const Parameter& parameter) {
      return config::matches_one(names.place_of(layer, parameter.name), patterns);
    };
    recipe.build = [build = std::move(recipe.build), is_trained](const Seeds& seeds) {
      std::unique_ptr<Layer> layer = build(seeds);
      layer->train_only(is_trained);
      return layer;
    };
    recipe.has_frozen = true;
    if (!are_alike) recipe.kind.clear();
  }
}

}  // namespace trireme::model
