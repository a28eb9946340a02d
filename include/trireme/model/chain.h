// Chains of layers: recipes that build any layer alone, so that a rank builds only its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"
#include "trireme/model/layer.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace trireme::model {

/// One layer, not built yet. `build` gets a generator that is seeded by (run seed, layer), so that
/// a layer's initial values do not depend on who builds it. Tied parameters start from the tie's
/// own generator: see `tied_initial`.
struct LayerRecipe {
  std::string name;
  double work = 0;  ///< relative cost of a forward
  std::function<std::unique_ptr<Layer>(at::Generator)> build;
};

/// What the chain's data looks like for one micro-batch of `examples` examples.
struct ChainModel {
  std::string kind;
  std::vector<LayerRecipe> layers;  ///< layer i is layers[i-1]
  std::string input;  ///< "tokens" (int64 [B, T], target the same shifted) or "vectors" (float [B,
                      ///< inputs], int64 [B])
  std::int64_t tokens_per_example = 1;  ///< for tokens/s
  std::int64_t inputs = 0;              ///< vectors: width; tokens: context
  std::int64_t classes = 0;             ///< size of the vocabulary, or number of classes
};

/// Builds chains of the user's own kind from the job's `model` section.
using ModelFactory = std::function<ChainModel(const io::Node& section)>;
using ModelRegistry = std::map<std::string, ModelFactory>;

/// The chain of a job. Throws InputError for a kind that neither Trireme nor `own` knows.
ChainModel make_model(const config::ModelSpec& spec, const ModelRegistry& own = {});

/// Generator for the initial values of a tied weight: the same for all its uses.
at::Generator tie_generator(std::int64_t seed, const std::string& tie);

}  // namespace trireme::model
