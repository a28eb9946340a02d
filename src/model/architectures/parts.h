// Parts: the pieces that layers are built from. A part may be a layer of its own or share one with
// its neighbours, with the same operators in the same order and the same initial values.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/device_functions.h"

#include "trireme/model/chain.h"
#include "trireme/model/past.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace trireme::model {

/// What a part's forward receives in addition to its input; parts that do not support piecewise
/// texts take only the Context.
struct Surroundings {
  const Context& context;
  Past* past = nullptr;  ///< the layer's KV cache if a text is run by pieces

  operator const Context&() const { return context; }  // NOLINT(google-explicit-constructor)
};

/// A part's forward. Takes ownership of its input, so that a tensor can be freed after its last
/// use.
using Part = std::function<Values(Values input, const Surroundings& around)>;

/// Moves a member out.
inline at::Tensor take(Values& values, std::size_t i) {
  return std::move(values[i]);
}

/// A layer that runs parts one after the other.
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

/// Creates the parameters of one part.
class PartBuilder {
 public:
  /// `place` is the part's name in the chain ("block3.attention"), which decides its initial
  /// values; `prefix` begins its parameters' names inside the layer.
  PartBuilder(PartsLayer& layer, const Seeds& seeds, std::string place, std::string prefix = "");

  at::Tensor normal(const std::string& name, at::IntArrayRef sizes, double deviation) const;
  at::Tensor constant(const std::string& name, at::IntArrayRef sizes, double value) const;
  /// A constant that stays float32 even if weights are bfloat16.
  at::Tensor float32_constant(const std::string& name, at::IntArrayRef sizes, double value) const;
  at::Tensor buffer(const std::string& name, at::IntArrayRef sizes, double value) const;
  /// A use of the tied weight with this name.
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
  std::string name;   ///< of a layer with only this part: "qkv"
  double work = 0;    ///< as in LayerRecipe
  std::function<Part(const PartBuilder&)> build;
  /// What sets it apart from the same part of other blocks, for LayerRecipe::kind: ".windowed".
  std::string variant = {};
  std::optional<std::int64_t> window = {};  ///< as in LayerRecipe
};

/// A layer of one part; `name` is its place.
LayerRecipe layer_of(std::string name, std::string kind, double work,
                     std::function<Part(const PartBuilder&)> build);

/// Adds a block as one layer, one layer per place, or one per part, by the grain as in
/// config::GptSpec. Parts of two blocks that differ must have variants that do.
void add_block(ChainModel& model, const std::string& block, const std::vector<PartRecipe>& parts,
               const std::string& grain);

/// y = x weight^T + bias, with a LoRA adapter + scale x A^T B^T (Hu et al. 2021, eq. 3).
struct Linear {
  at::Tensor weight, bias;    ///< bias undefined: none
  at::Tensor lora_A, lora_B;  ///< [rank, in] and [out, rank]; undefined: no adapter
  double lora_scale = 0;

  /// A lean tape does not keep a cast copy of the weight.
  at::Tensor operator()(const at::Tensor& x, const Context& context) const;
  /// The same for x = gelu(h), with at::gelu's `approximation`. A lean tape keeps only h.
  at::Tensor of_gelu(at::Tensor h, const std::string& approximation, const Context& context) const;
};

/// Which linear weights of a chain have LoRA adapters.
struct Lora {
  int rank = 0;  ///< 0: none
  double alpha = 0;
  std::vector<std::string> targets;  ///< names of the weights; empty: all

  bool covers(const std::string& name) const;
};

/// The Lora of a spec that has keys for it.
template <class Spec>
Lora lora_of(const Spec& spec) {
  return {.rank = spec.lora_rank, .alpha = spec.lora_alpha, .targets = spec.lora_targets};
}

/// `name`.weight [out, in] with normal values and `name`.bias with zeros. With an adapter, also
/// `name`.lora_A with normal values and `name`.lora_B with zeros, so that it changes nothing at
/// first.
Linear add_linear(const PartBuilder& build, const std::string& name, std::int64_t in,
                  std::int64_t out, double deviation, const Lora& lora = {});
Linear add_linear_without_bias(const PartBuilder& build, const std::string& name, std::int64_t in,
                               std::int64_t out, double deviation, const Lora& lora = {});

/// Layer norm, or without a bias an RMS norm, over the last dimension; its result has the type of a
/// following product. A lean tape keeps only x.
struct Norm {
  at::Tensor weight, bias;
  double epsilon;
  bool is_zero_centered = false;  ///< multiplies by 1 + weight

  at::Tensor operator()(const at::Tensor& x, const Context& context) const;
  /// The output of each of these layers applied to the norm, then x for its other uses.
  Values into(const std::vector<const Linear*>& layers, const at::Tensor& x,
              const Context& context) const;

 private:
  NormAndInput with_input(const at::Tensor& x, const Context& context) const;
  /// What it multiplies by, in the weight's type.
  at::Tensor factor() const;
};

Norm add_norm(const PartBuilder& build, const std::string& name, std::int64_t width,
              double epsilon);
Norm add_rms_norm(const PartBuilder& build, const std::string& name, std::int64_t width,
                  double epsilon);
/// Its weight begins with zeros.
Norm add_zero_centered_rms_norm(const PartBuilder& build, const std::string& name,
                                std::int64_t width, double epsilon);

}  // namespace trireme::model
