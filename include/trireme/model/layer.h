// Layer of the chain: the interface that users implement. Trireme cuts the chain, recomputes and
// offloads without the layer knowing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace trireme::model {

/// Input or output of a layer: a tensor or a tuple of tensors. Floating-point members carry
/// gradients.
using Values = std::vector<at::Tensor>;

/// A masked target, ignored by the loss (LibTorch's default `ignore_index`).
inline constexpr std::int64_t kMasked = -100;

/// Context of one forward. The same for a forward and its recomputations, so that both give the
/// same bits.
struct Context {
  at::Generator
      generator;  ///< seeded by (run seed, step, micro-batch, layer): take all randomness from it
  bool training = true;  ///< false: validation, no dropout
  /// The data set's target, int64 classes, for the last layer. For data with a loss mask, masked
  /// targets are kMasked, and a second member, float32 [], is the weight of each other target's
  /// loss: the micro-batch's loss is their sum times this weight, so that a step's mean over
  /// micro-batches is the mean over all unmasked targets of the step. Empty for other layers, and
  /// when the model's output is wanted instead of its loss.
  Values target;
  /// How many tokens each isolated document of the micro-batch has, row after row, the rest of a
  /// row counting as one more, so that together they fill the rows. No document sees another, and
  /// the positions of each begin at 0. On the host, so that nothing waits for a device to read it.
  /// Empty: a row is one text.
  std::vector<std::int64_t> documents = {};
  bool lean_tapes = false;  ///< `memory.tapes: lean`; see remade() in functional.h
};

/// A weight with its name inside the layer.
struct Parameter {
  std::string name;  ///< "attention.weight"
  at::Tensor value;  ///< a leaf that requires grad if it is trained
  std::string tie;   ///< parameters of one non-empty tie name are one weight with several uses
  bool stays_float32 = false;  ///< even if the job's other weights are in bfloat16
  bool is_trained = true;      ///< false: frozen, keeps its initial values
};

/// A tensor that is not trained (batch-norm statistics). A training forward may change it
/// in place; the runtime undoes the change of a recomputed forward, so that statistics are updated
/// once.
struct Buffer {
  std::string name;
  at::Tensor value;
  bool is_saved = true;  ///< false: no checkpoint has it; a resumed run begins with it as built
};

class Layer {
 public:
  virtual ~Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;
  Layer(Layer&&) = delete;
  Layer& operator=(Layer&&) = delete;

  /// Computes x[i] from x[i-1]. Must not change its input in place, must not keep tensors between
  /// calls (except in buffers), and must be a function of input, parameters, buffers and context
  /// alone. The last layer returns the loss: one float value, the mean over the micro-batch
  /// (built-in language models without a target: logits). A recomputed forward may be ended by an
  /// exception from any operation, once it has saved what its backward needs.
  ///
  /// With `train.precision: bfloat16_weights` parameters and floating inputs are bfloat16:
  /// accumulate many values, and compute a loss, in float32.
  ///
  /// The output must not depend on buffers that a training forward changes: a recomputed forward
  /// sees the values that later micro-batches have left. Batch norm obeys this.
  ///
  /// An output member that shares storage with an input member, a parameter, a buffer or the target
  /// is copied by the caller, so that each value's memory is freed with it: a tensor that is passed
  /// through takes its bytes again in every layer that passes it through. Cut chains where few are.
  /// So is one that is not contiguous: a value that comes from another rank is, and operators may
  /// give other last bits for other strides.
  virtual Values forward(const Values& input, const Context& context) = 0;

  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<Buffer>& buffers() const { return buffers_; }

  /// Freezes the parameters for which `is_wanted` returns false.
  void train_only(const std::function<bool(const Parameter&)>& is_wanted);

 protected:
  Layer() = default;

  /// Registers a parameter with the values `initial` and returns it; `tie` as in Parameter.
  at::Tensor add_parameter(std::string name, const at::Tensor& initial, std::string tie = "");
  /// Registers a parameter whose operator does not take bfloat16 (scale and shift of a batch norm).
  at::Tensor add_float32_parameter(std::string name, const at::Tensor& initial);
  at::Tensor add_buffer(std::string name, const at::Tensor& initial, bool is_saved = true);

 private:
  at::Tensor add(Parameter parameter);

  std::vector<Parameter> parameters_;
  std::vector<Buffer> buffers_;
};

/// Whether the gradient of a layer's input is needed.
enum class InputGradient {
  kNeeded,
  kNotNeeded,  ///< layer 1: nothing is before it
  kZeros,      ///< no earlier layer is trained: zeros, computed without work
};

/// Moves parameters and buffers to `device`. Layers are built on the CPU, so that initial values
/// have the same bits on every device. Gradients are not moved.
void move_to(c10::Device device, Layer& layer);

}  // namespace trireme::model
