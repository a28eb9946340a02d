// A layer of the chain: the user's interface. Write one, put it into a Chain, and Trireme cuts,
// recomputes and moves it without the layer knowing. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::model {

/// What a layer takes and gives: a tensor, or a tuple of them. Floating-point members carry
/// gradients.
using Values = std::vector<at::Tensor>;

/// What surrounds one forward. The same for a forward and for its repetitions, so that both give
/// the same bits.
struct Context {
  at::Generator
      generator;  ///< seeded by (run seed, step, micro-batch, layer): take all randomness from it
  bool training = true;  ///< false: validation, no dropout
  at::Tensor target;  ///< the last layer's: what the data set gave as target; undefined elsewhere
};

/// A trainable tensor with its name inside the layer.
struct Parameter {
  std::string name;  ///< "attention.weight"
  at::Tensor value;  ///< a leaf that requires grad
  std::string tie;   ///< parameters of one non-empty tie name are one weight with several uses
};

/// A tensor that is saved but not trained (batch-norm statistics). A forward may change it; a
/// repeated forward's change is undone by the runtime, so statistics move once.
struct Buffer {
  std::string name;
  at::Tensor value;
};

class Layer {
 public:
  virtual ~Layer() = default;

  /// x[i] from x[i-1]. Must not change its input in place, must not keep tensors between calls (but
  /// in buffers), and must be a function of input, parameters, buffers and context alone. The last
  /// layer returns the loss: one float value, the mean over the micro-batch.
  virtual Values forward(const Values& input, const Context& context) = 0;

  /// Relative cost of a forward for one example (multiply-adds); used to cut the chain where
  /// nothing was measured.
  virtual double work() const;

  const std::string& name() const { return name_; }
  std::vector<Parameter>& parameters() { return parameters_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  std::vector<Buffer>& buffers() { return buffers_; }

 protected:
  explicit Layer(std::string name) : name_(std::move(name)) {}

  /// Makes a parameter of the layer out of `initial` and returns it; `tie` as in Parameter.
  at::Tensor add_parameter(std::string name, const at::Tensor& initial, std::string tie = "");
  at::Tensor add_buffer(std::string name, const at::Tensor& initial);

 private:
  std::string name_;
  std::vector<Parameter> parameters_;
  std::vector<Buffer> buffers_;
};

}  // namespace trireme::model
