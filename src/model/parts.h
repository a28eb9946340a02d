// Layers put together from parts: a part is made once and stands in a layer of its own or together
// with its neighbours, with the same operators in the same order and the same initial values.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device_functions.h"

#include "trireme/model/chain.h"
#include "trireme/model/past.h"

#include <functional>
#include <string>
#include <vector>

namespace trireme::model {

/// What a part's forward is given beside its input; parts to which all texts are whole take the
/// Context alone.
struct Surroundings {
  const Context& context;
  Past* past = nullptr;  ///< of a text that comes by pieces: the layer's

  operator const Context&() const { return context; }  // NOLINT(google-explicit-constructor)
};

/// What a part does. Takes its input over: a tensor that it has used up can go at once.
using Part = std::function<Values(Values input, const Surroundings& around)>;

/// Moves a member out, for good or until the end of the expression.
inline at::Tensor take(Values& values, std::size_t i) {
  return std::move(values[i]);
}

/// Parts one after the other.
class PartsLayer final : public Layer, public ForwardByPieces {
 public:
  using Layer::add_buffer;
  using Layer::add_float32_parameter;
  using Layer::add_parameter;

  void append(Part part) { parts_.push_back(std::move(part)); }
  Values forward(const Values& input, const Context& context) override;
  Values forward_piece(const Values& input, const Context& context, Past& past) override;

 private:
  std::vector<Part> parts_;
};

/// Makes the parameters of one part.
class PartBuilder {
 public:
  /// `place` is the part's name in the chain ("block3.attention"), which decides its initial
  /// values; `prefix` is what its parameters' names begin with inside the layer.
  PartBuilder(PartsLayer& layer, const Seeds& seeds, std::string place, std::string prefix = "");

  at::Tensor normal(const std::string& name, at::IntArrayRef sizes, double deviation) const;
  at::Tensor constant(const std::string& name, at::IntArrayRef sizes, double value) const;
  /// One that stays float32 beside weights in bfloat16.
  at::Tensor float32_constant(const std::string& name, at::IntArrayRef sizes, double value) const;
  at::Tensor buffer(const std::string& name, at::IntArrayRef sizes, double value) const;
  /// A use of the weight that is tied under this name.
  at::Tensor tied(const std::string& name, at::IntArrayRef sizes, double deviation,
                  const std::string& tie) const;

 private:
  PartsLayer& layer_;
  const Seeds& seeds_;
  std::string place_, prefix_;
};

/// A part, not built yet.
struct PartRecipe {
  std::string place;  ///< as in PartBuilder, without the block: "attention"
  std::string name;   ///< of a layer that is this part alone: "qkv"
  double work = 0;    ///< as in LayerRecipe
  std::function<Part(const PartBuilder&)> build;
};

/// A layer that is one part; `name` is its place.
LayerRecipe layer_of(std::string name, std::string kind, double work,
                     std::function<Part(const PartBuilder&)> build);

/// Adds a block as one layer, as one for each place, or as one for each part: the grain's words in
/// config::GptSpec. Equal blocks must have equal parts.
void add_block(ChainModel& model, const std::string& block, const std::vector<PartRecipe>& parts,
               const std::string& grain);

/// y = x weight^T + bias, and with an adapter of low rank + scale x A^T B^T (Hu et al. 2021, LoRA,
/// eq. 3).
struct Linear {
  at::Tensor weight, bias;    ///< bias undefined: none
  at::Tensor lora_A, lora_B;  ///< [rank, in] and [out, rank]; undefined: no adapter
  double lora_scale = 0;

  /// A lean tape keeps no weight that was cast for the product.
  at::Tensor operator()(const at::Tensor& x, const Context& context) const;
  /// Of gelu(h), by at::gelu's `approximation`. A lean tape keeps h alone.
  at::Tensor of_gelu(at::Tensor h, const std::string& approximation, const Context& context) const;
};

/// Which linear weights of a chain have adapters beside them.
struct Lora {
  int rank = 0;  ///< 0: none has
  double alpha = 0;
  std::vector<std::string> targets;  ///< names of the weights; empty: all

  bool covers(const std::string& name) const;
};

/// What a spec with keys of its own for it says.
template <class Spec>
Lora lora_of(const Spec& spec) {
  return {.rank = spec.lora_rank, .alpha = spec.lora_alpha, .targets = spec.lora_targets};
}

/// `name`.weight [out, in] of normal values and `name`.bias of zeros. With an adapter `name`.lora_A
/// of normal values and `name`.lora_B of zeros: it changes nothing before it has learned.
Linear add_linear(const PartBuilder& build, const std::string& name, std::int64_t in,
                  std::int64_t out, double deviation, const Lora& lora = {});
Linear add_linear_without_bias(const PartBuilder& build, const std::string& name, std::int64_t in,
                               std::int64_t out, double deviation, const Lora& lora = {});

/// Layer norm, or without a bias an RMS norm, over the last dimension, in the type of a product to
/// come. A lean tape keeps x alone.
struct Norm {
  at::Tensor weight, bias;
  double epsilon;

  at::Tensor operator()(const at::Tensor& x, const Context& context) const;
  /// Each of these layers of the norm, then x for what it is used for beside them.
  Values into(const std::vector<const Linear*>& layers, const at::Tensor& x,
              const Context& context) const;

 private:
  NormAndInput with_input(const at::Tensor& x, const Context& context) const;
};

Norm add_norm(const PartBuilder& build, const std::string& name, std::int64_t width,
              double epsilon);
Norm add_rms_norm(const PartBuilder& build, const std::string& name, std::int64_t width,
                  double epsilon);

}  // namespace trireme::model
