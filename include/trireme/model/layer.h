// A layer of the chain: the user's interface. Write one, put it into a chain, and Trireme cuts,
// recomputes and moves it without the layer knowing.
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

/// What a layer takes and gives: a tensor, or a tuple of them. Floating-point members carry
/// gradients.
using Values = std::vector<at::Tensor>;

/// A target that does not count (LibTorch's default `ignore_index`).
inline constexpr std::int64_t kMasked = -100;

/// What surrounds one forward. The same for a forward and for its repetitions, so that both give
/// the same bits.
struct Context {
  at::Generator
      generator;  ///< seeded by (run seed, step, micro-batch, layer): take all randomness from it
  bool training = true;  ///< false: validation, no dropout
  /// The last layer's: what the data set gave as target, int64 classes. Of data with a loss mask
  /// those that do not count are kMasked, and a second member, float32 [], says what the loss of
  /// each other one weighs: the micro-batch's loss is their sum by that weight, so that a step's
  /// mean over micro-batches is the mean over all targets of the step that count. Empty elsewhere,
  /// and where what the model says is wanted instead of its loss.
  Values target;
  bool lean_tapes = false;  ///< `memory.tapes: lean`; see remade() in functional.h
};

/// A weight with its name inside the layer.
struct Parameter {
  std::string name;  ///< "attention.weight"
  at::Tensor value;  ///< a leaf that requires grad if it is trained
  std::string tie;   ///< parameters of one non-empty tie name are one weight with several uses
  bool stays_float32 = false;  ///< also where the other weights of a job are in bfloat16
  bool is_trained = true;      ///< false: frozen, keeps the values that it begins with
};

/// A tensor that is saved but not trained (batch-norm statistics). A forward in training may change
/// it in place; the change of a repeated forward is undone by the runtime, so statistics move once.
struct Buffer {
  std::string name;
  at::Tensor value;
};

class Layer {
 public:
  virtual ~Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;
  Layer(Layer&&) = delete;
  Layer& operator=(Layer&&) = delete;

  /// x[i] from x[i-1]. Must not change its input in place, must not keep tensors between calls (but
  /// in buffers), and must be a function of input, parameters, buffers and context alone. The last
  /// layer returns the loss: one float value, the mean over the micro-batch (built-in models of
  /// tokens without a target: logits). A repeated forward may
  /// be left by an exception out of any operation, once it has saved what its backward needs.
  ///
  /// With `train.precision: bfloat16_weights` parameters and floating inputs come in bfloat16: sum
  /// up many values, and compute a loss, in float32.
  ///
  /// What a forward in training changes (buffers) its output must not depend on: a repeated forward
  /// finds there what later micro-batches have left. Batch norm keeps to that.
  ///
  /// A member of the output that shares storage with a member of the input, or with a parameter, a
  /// buffer or the target, is copied by whoever runs the layer, so that a value's bytes leave when
  /// it does: a tensor that is handed through costs its bytes again in every layer that hands it
  /// through. Cut chains where few are.
  virtual Values forward(const Values& input, const Context& context) = 0;

  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<Buffer>& buffers() const { return buffers_; }

  /// Freezes the parameters for which `is_wanted` says no.
  void train_only(const std::function<bool(const Parameter&)>& is_wanted);

 protected:
  Layer() = default;

  /// Makes a parameter of the layer out of `initial` and returns it; `tie` as in Parameter.
  at::Tensor add_parameter(std::string name, const at::Tensor& initial, std::string tie = "");
  /// One whose operator takes no bfloat16 (scale and shift of a batch norm).
  at::Tensor add_float32_parameter(std::string name, const at::Tensor& initial);
  at::Tensor add_buffer(std::string name, const at::Tensor& initial);

 private:
  at::Tensor add(Parameter parameter);

  std::vector<Parameter> parameters_;
  std::vector<Buffer> buffers_;
};

/// Whether the gradient of a layer's input is wanted.
enum class InputGradient {
  kNeeded,
  kNotNeeded,  ///< nothing is below layer 1
  kZeros,      ///< nothing below is trained: zeros stand for it, and cost no work
};

/// Moves parameters and buffers; layers are built on CPU, so that initial values have the same bits
/// for every device. Gradients are left behind.
void move_to(c10::Device device, Layer& layer);

}  // namespace trireme::model
