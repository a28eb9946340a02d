// SPDX-License-Identifier: Apache-2.0
#include "chain_of_modules.h"

#include "errors.h"
#include "python_layer.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/model/default_generator.h"

#include <pybind11/stl.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace trireme::python {
namespace {

/// Maps, lists, texts, numbers, true and false as Python's.
py::object value_of(const io::Node& node);
py::object scalar_of(const io::Node& node);
model::ChainModel chain_of(const py::object& chain);
model::LayerRecipe recipe_of(const py::object& recipe, LayerOptions options);
/// What the first layer is given, and sizes of an example.
void set_input(const py::object& chain, model::ChainModel& model);

}  // namespace

model::ModelFactory factory_of(py::object make) {
  return [make = held(std::move(make))](const io::Node& section) {
    const py::gil_scoped_acquire gil;
    try {
      return chain_of((*make)(value_of(section)));
    } catch (const py::error_already_set& error) {
      rethrow(error, section.where());
    }
  };
}

namespace {

py::object value_of(const io::Node& node) {
  switch (node.kind()) {
    case io::Node::Kind::kNull:
      return py::none();
    case io::Node::Kind::kScalar:
      return scalar_of(node);
    case io::Node::Kind::kList: {
      py::list list;
      for (const io::Node& element : node.list()) list.append(value_of(element));
      return list;
    }
    case io::Node::Kind::kMap: {
      py::dict map;
      for (const auto& [key, value] : node.entries()) map[py::str(key)] = value_of(value);
      return map;
    }
  }
  return py::none();
}

py::object scalar_of(const io::Node& node) {
  const std::string text = node.text();
  const bool is_quoted = node.found().starts_with('"');
  const char* const end = text.data() + text.size();
  std::int64_t integer = 0;
  double number = 0;
  if (is_quoted) return py::str(text);
  if (text == "true" || text == "false") return py::bool_(text == "true");
  if (std::from_chars(text.data(), end, integer).ptr == end) return py::int_(integer);
  if (std::from_chars(text.data(), end, number).ptr == end && std::isfinite(number))
    return py::float_(number);
  return py::str(text);
}

model::ChainModel chain_of(const py::object& chain) {
  model::ChainModel model{.name = chain.attr("name").cast<std::string>()};
  set_input(chain, model);
  model.classes = chain.attr("classes").cast<std::int64_t>();
  model.code = chain.attr("code").cast<std::string>();
  model.takes_masked_targets = chain.attr("masked_targets").cast<bool>();
  const py::list recipes = chain.attr("recipes");
  for (std::size_t i = 0; i < recipes.size(); ++i) {
    const py::object recipe = recipes[i];
    const auto ties = recipe.attr("ties").cast<std::map<std::string, std::string>>();
    model.layers.push_back(recipe_of(recipe, {.is_last = i + 1 == recipes.size(), .ties = ties}));
    model.has_batch_norm = model.has_batch_norm || recipe.attr("has_batch_norm").cast<bool>();
  }
  return model;
}

model::LayerRecipe recipe_of(const py::object& recipe, LayerOptions options) {
  const auto name = recipe.attr("name").cast<std::string>();
  const auto build = [build = held(recipe.attr("build")), name, options = std::move(options)](
                         const model::Seeds& seeds) -> std::unique_ptr<model::Layer> {
    keep_thread_state();
    const model::DefaultGenerator drawn_from(seeds.of_layer());
    const py::gil_scoped_acquire gil;
    try {
      const std::uint64_t seed = seeds.of_layer().current_seed();
      return std::make_unique<PythonLayer>((*build)(seed, seeds.of_tie("").current_seed()),
                                           options);
    } catch (const py::error_already_set& error) {
      rethrow(error, concat("layer ", name, " cannot be built"));
    }
  };
  const auto given_values = [digest = held(recipe.attr("given_values")), name] {
    const py::gil_scoped_acquire gil;
    try {
      return (*digest)().cast<std::string>();
    } catch (const py::error_already_set& error) {
      rethrow(error, concat("layer ", name));
    }
  };
  return {.name = name,
          .work = recipe.attr("work").cast<double>(),
          .build = build,
          .kind = recipe.attr("kind").cast<std::string>(),
          .has_frozen = recipe.attr("has_frozen").cast<bool>(),
          .ends_backward = recipe.attr("ends_backward").cast<bool>(),
          .may_vary = true,
          .sketch = recipe.attr("sketch").cast<std::string>(),
          .given_values = given_values};
}

void set_input(const py::object& chain, model::ChainModel& model) {
  const auto takes = chain.attr("takes").cast<std::string>();
  const auto sizes = chain.attr("example_sizes").cast<std::vector<std::int64_t>>();
  if (takes != "images") {
    model.input = takes == "tokens" ? model::InputKind::kTokens : model::InputKind::kVectors;
    model.input_size = sizes.at(0);
    return;
  }
  model.input = model::InputKind::kImages;
  model.image = {.channels = sizes.at(0), .height = sizes.at(1), .width = sizes.at(2)};
  model.input_size = model.image.size();
}

}  // namespace
}  // namespace trireme::python
