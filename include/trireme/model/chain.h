// Chains of layers: recipes that build any layer alone, so that a rank builds only its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"
#include "trireme/io/node.h"
#include "trireme/model/layer.h"

#include <ATen/core/Generator.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace trireme::model {

/// Where a layer's initial values come from. They depend on the run's seed and on what they are
/// for, not on who builds the layer.
class Seeds {
 public:
  Seeds(std::int64_t run_seed, int layer) : run_seed_(run_seed), layer_(layer) {}

  /// A fresh generator of this layer; every call starts it anew.
  at::Generator of_layer() const;
  /// A fresh generator of the parameter of this name in the chain. It stays the same however the
  /// chain is cut into layers.
  at::Generator of_parameter(const std::string& name) const;
  /// A fresh generator of a tied weight: the same for all its uses.
  at::Generator of_tie(const std::string& tie) const;

 private:
  std::int64_t run_seed_;
  int layer_;
};

/// One layer, not built yet.
struct LayerRecipe {
  std::string name;
  /// Multiply-adds of a forward for one example; cuts the chain where nothing was measured.
  double work = 0;
  std::function<std::unique_ptr<Layer>(const Seeds&)> build;
  /// Layers of one chain with the same non-empty kind cost the same for inputs of the same shapes
  /// and tie the same weights: profiling measures one of them. Empty: like no other.
  std::string kind = {};
  bool has_frozen = false;     ///< some of its parameters may be frozen
  bool ends_backward = false;  ///< nothing before it in the chain is trained
  /// Its tensors may be as large as values say, whatever its documentation asks for: profiling
  /// looks at several inputs.
  bool may_vary = false;
};

/// What the first layer takes and the last one compares with, for B examples.
enum class InputKind {
  kTokens,   ///< int64 [B, T] with T = `input_size`, values below `classes`; target the same,
             ///< shifted by one
  kVectors,  ///< float32 [B, N] with N = `input_size`; target int64 [B], values below `classes`
  kImages,   ///< float32 [B, C, H, W], in all `input_size` values each; target as for vectors
};

/// Of one image: what an example of InputKind::kImages is.
struct ImageShape {
  std::int64_t channels = 0, height = 0, width = 0;

  std::int64_t size() const { return channels * height * width; }
};

/// A chain as recipes. Layer i of 1..L is layers[i-1]; the last one includes the loss.
struct ChainModel {
  std::string name;
  std::vector<LayerRecipe> layers;
  InputKind input = InputKind::kTokens;
  std::int64_t input_size = 0;
  std::int64_t classes = 0;
  ImageShape image = {};  ///< of images only
  /// Losses depend on which examples share a micro-batch, so that a job must say its size. Of
  /// layers that Trireme does not know (from files, or an own factory's); it knows its own.
  bool has_batch_norm = false;
  /// The loss heeds a mask (Context::target); data that have one are refused otherwise.
  bool takes_masked_targets = false;
  /// Without a target the last layer gives logits [B, T, V], so that the model can go on with a
  /// text.
  bool gives_logits = false;

  int length() const { return static_cast<int>(layers.size()); }
  /// Sizes of one example's input, without the B in front.
  std::vector<std::int64_t> example_sizes() const;
  /// What tokens/s counts: T for tokens, 1 for vectors and images.
  std::int64_t tokens_per_example() const { return input == InputKind::kTokens ? input_size : 1; }
};

/// Of one whose last layer has nothing else.
inline constexpr const char* kNoLogits =
    "the last layer gives a loss, no logits, so that the model cannot go on with a text";

/// Builds chains of the user's own kind from the job's `model` section.
using ModelFactory = std::function<ChainModel(const io::Node& section)>;
using ModelRegistry = std::map<std::string, ModelFactory>;

/// The chain of a job. Throws InputError for a kind that neither Trireme nor `own` knows.
ChainModel make_model(const config::ModelSpec& spec, const ModelRegistry& own = {});

/// Of the names and bytes of the files that a spec's layers are read from; empty where there are
/// none. Throws InputError where they cannot be read.
std::string files_digest(const config::ModelSpec& spec);

/// What the layer of this number, 1..L, owes to the one before it.
InputGradient input_gradient(const ChainModel& model, int number);

/// Throws InputError where a pattern of the job's `model.trained` matches no parameter. Builds a
/// layer of every kind.
void require_trained(const ChainModel& model, const config::JobSpec& job);

/// Built-in kinds.
ChainModel make_gpt(const config::GptSpec& spec);
ChainModel make_llama(const config::LlamaSpec& spec);
ChainModel make_vit(const config::VitSpec& spec);
ChainModel make_resnet(const config::ResnetSpec& spec);
ChainModel make_vgg(const config::VggSpec& spec);
ChainModel make_mlp(const config::MlpSpec& spec);
/// Throws InputError where the files are not there.
ChainModel make_torchscript(const config::TorchScriptSpec& spec);

}  // namespace trireme::model
