// The model as a chain of layer recipes: each layer can be built alone, so that a rank builds only
// its own.
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
#include <optional>
#include <string>
#include <vector>

namespace trireme::model {

/// Random generators for a layer's initial values. They depend on the run's seed and the values'
/// use, not on which rank builds the layer.
class Seeds {
 public:
  Seeds(std::int64_t run_seed, int layer) : run_seed_(run_seed), layer_(layer) {}

  /// A new generator of this layer; every call restarts it.
  at::Generator of_layer() const;
  /// A new generator of the parameter with this name in the chain; independent of how the chain is
  /// cut into layers.
  at::Generator of_parameter(const std::string& name) const;
  /// A new generator of a tied weight: the same for all its uses.
  at::Generator of_tie(const std::string& tie) const;

 private:
  std::int64_t run_seed_;
  int layer_;
};

/// One layer, not built yet.
struct LayerRecipe {
  std::string name;
  /// Multiply-adds of a forward for one example; used to cut the chain if nothing was measured.
  double work = 0;
  std::function<std::unique_ptr<Layer>(const Seeds&)> build;
  /// Layers of one chain with the same non-empty kind cost the same for inputs of the same shapes
  /// and tie the same weights: profiling measures one of them. Empty: equal to no other layer.
  std::string kind = {};
  bool has_frozen = false;     ///< some of its parameters may be frozen
  bool ends_backward = false;  ///< nothing before it in the chain is trained
  /// Its tensor sizes may depend on input values: profiling runs several inputs.
  bool may_vary = false;
  bool has_weights = true;  ///< of a graph's layer: trained ones
  /// How many tokens its attention lets a token see, itself included; nothing: all before it.
  std::optional<std::int64_t> window = {};
  /// What a calling program says of it that its job does not: the same text on all ranks.
  std::string sketch = {};
  /// Digest of the values that a calling program gave it, the same on all ranks. Null: all that it
  /// begins with is drawn from its seeds.
  std::function<std::string()> given_values = {};
};

/// Input of the first layer and target of the last one, for B examples.
enum class InputKind {
  kTokens,   ///< int64 [B, T] with T = `input_size`, values below `classes`; target the same,
             ///< shifted by one
  kVectors,  ///< float32 [B, N] with N = `input_size`; target int64 [B], values below `classes`
  kImages,   ///< float32 [B, C, H, W], C H W = `input_size`; target as for vectors
};

/// Shape of one image, an example of InputKind::kImages.
struct ImageShape {
  std::int64_t channels = 0, height = 0, width = 0;

  std::int64_t size() const { return channels * height * width; }
};

/// A chain, or a graph, as recipes. Layer i of 1..L is layers[i-1]; the last one includes the loss.
struct ChainModel {
  std::string name;
  std::vector<LayerRecipe> layers;
  /// For graphs, by layer: the values that it reads, ascending; value 0 is the model's input, value
  /// i the output of layer i. A graph's values are one tensor each, and none but the input is free
  /// of gradients. Empty: a chain, in which every layer reads the one before it.
  std::vector<std::vector<int>> inputs = {};
  InputKind input = InputKind::kTokens;
  std::int64_t input_size = 0;
  std::int64_t classes = 0;
  /// Digest of the files and the code outside of this program that its layers are made of, and of
  /// what they compute with: costs hold, and a run may be resumed, where it is equal. Empty for
  /// layers built into the program.
  std::string code = {};
  ImageShape image = {};  ///< for kImages only
  /// Losses depend on which examples share a micro-batch, so that the job must give the micro-batch
  /// size. Set for layers that Trireme does not know (from files or the user's factory); it knows
  /// its own.
  bool has_batch_norm = false;
  /// The loss supports a mask (Context::target); otherwise data sets with one are refused.
  bool takes_masked_targets = false;
  /// Its layers keep documents apart (Context::documents); otherwise data sets that ask for it are
  /// refused.
  bool isolates_documents = false;
  /// Without a target the last layer returns logits [B, T, V], so that the model can generate text.
  bool gives_logits = false;

  int length() const { return static_cast<int>(layers.size()); }
  bool is_graph() const { return !inputs.empty(); }
  /// Shape of one example's input, without the leading B.
  std::vector<std::int64_t> example_sizes() const;
  /// Tokens per example as counted by tokens/s: T for tokens, 1 for vectors and images.
  std::int64_t tokens_per_example() const { return input == InputKind::kTokens ? input_size : 1; }
};

/// The error for a model whose last layer returns only a loss.
inline constexpr const char* kNoLogits =
    "the last layer gives a loss, no logits, so that the model cannot generate text";

/// Builds chains of the user's own kind from the job's `model` section.
using ModelFactory = std::function<ChainModel(const io::Node& section)>;
using ModelRegistry = std::map<std::string, ModelFactory>;

/// The chain of a job. Throws InputError for a kind that neither Trireme nor `own` knows.
ChainModel make_model(const config::ModelSpec& spec, const ModelRegistry& own = {});

/// Digest of the names and bytes of the files that a spec's layers are read from; empty if there
/// are none. Throws InputError if a file cannot be read.
std::string files_digest(const config::ModelSpec& spec);

/// Which input gradient layer `number`, 1..L, must compute for the one before it.
InputGradient input_gradient(const ChainModel& model, int number);

/// Throws InputError if a pattern of the job's `model.trained` matches no parameter. Builds one
/// layer of each kind.
void require_trained(const ChainModel& model, const config::JobSpec& job);

/// Built-in kinds.
ChainModel make_gpt(const config::GptSpec& spec);
ChainModel make_llama(const config::LlamaSpec& spec);
ChainModel make_vit(const config::VitSpec& spec);
ChainModel make_resnet(const config::ResnetSpec& spec);
ChainModel make_vgg(const config::VggSpec& spec);
ChainModel make_mlp(const config::MlpSpec& spec);
/// Throws InputError if the files do not exist.
ChainModel make_torchscript(const config::TorchScriptSpec& spec);

}  // namespace trireme::model
