// A rank's layers, their parameters and gradient sums, held for the whole run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "state/streamed_weights.h"

#include "trireme/core/error.h"
#include "trireme/core/units.h"
#include "trireme/model/chain.h"
#include "trireme/model/gradient_sums.h"
#include "trireme/model/layer.h"
#include "trireme/model/precision.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trireme::runtime {

/// One use of a weight by one layer of this rank.
struct StageParameter {
  int layer = 0;
  int index = 0;       ///< within its layer
  std::string name;    ///< "block0.mlp/up.weight"
  std::string tie;     ///< empty: this is its only use
  std::string begins;  ///< if tied: digest of its initial value
  /// Its value is the storage of an earlier use on this rank: not stepped again.
  bool shares_value = false;
  bool is_trained = true;
  bool is_streamed = false;  ///< weight on the device only while Stage::weights() holds it
  /// The float32 master, which is trained; `weight` if frozen. Undefined where the optimizer has
  /// offloaded it, and, where the stage keeps no masters, until put_master().
  at::Tensor value;
  at::Tensor weight;    ///< what the layer computes with: `value`, or its rounding
  at::Tensor gradient;  ///< its sum, on the device while its weight is; undefined if frozen
};

/// The error for two uses of one weight that do not begin with the same values.
InputError unlike_uses(const std::string& tie, const std::string& first, const std::string& second);

/// Layers of one rank, built from recipes. Gradient sums (model::GradientSums) exist from the
/// start: one flat buffer for all weights that stay on the device, one for each layer whose trained
/// weights are streamed; backward adds to them. Uses of a tied weight share their value on one rank
/// but never their gradients, so that sums keep chain order.
class Stage {
 public:
  /// Where masters are kept if layers compute with another type.
  enum class Masters {
    kDevice,      ///< on the device, each as `value` of its parameter
    kDrawnAgain,  ///< nowhere: the optimizer draws them once more, layer by layer
  };
  /// Builds `layers` (ascending numbers of 1..L) with initial values that depend on (seed, layer)
  /// alone, few at a time, then moves them to `device`. Layers of `weights`, which must outlive it,
  /// are streamed: their untied frozen weights, or where there are none their untied trained
  /// weights with gradients, are offloaded at once. Throws InputError where two uses of a weight do
  /// not begin with the same values.
  Stage(const model::ChainModel& model, std::vector<int> layers, std::int64_t seed,
        model::Precision precision = model::Precision::kFloat32,
        c10::Device device = c10::DeviceType::CPU, Masters masters = Masters::kDevice,
        StreamedWeights* weights = nullptr);

  c10::Device device() const { return device_; }
  /// Where masters were kept at construction.
  Masters masters() const { return masters_; }
  /// Builds a layer with its initial values, on the host, in float32. Thread-safe.
  std::unique_ptr<model::Layer> draw(int number) const;

  /// The streamed weights; null: all weights stay on the device.
  StreamedWeights* weights() const { return weights_; }

  const std::vector<int>& layers() const { return numbers_; }
  /// Whether this rank does not have the next layer: the output goes to another rank, or is the
  /// loss.
  bool ends_run(int number) const { return !layers_.contains(number + 1); }
  model::Layer& layer(int number) { return *layers_.at(number); }
  const std::string& layer_name(int number) const { return recipes_.at(number).name; }
  model::InputGradient input_gradient(int number) const { return input_gradients_.at(number); }

  /// In chain order.
  const std::vector<StageParameter>& parameters() const { return parameters_; }

  /// Sets the parameter's master, for all uses that share it; undefined if the stage no longer
  /// holds it.
  void put_master(std::size_t parameter, const at::Tensor& master);

  /// Gradients of weights that stay on the device.
  model::GradientSums& gradients() { return *gradients_; }
  /// Gradients of the layer's streamed weights; null if there are none.
  model::GradientSums* streamed_gradients(int layer);

  Bytes parameter_bytes() const;  ///< as layers compute with them
  Bytes gradient_bytes() const;

 private:
  /// Whether the layer is built by another thread.
  bool is_built_apart(int number) const;
  void add_layer(int number, std::unique_ptr<model::Layer> built, model::Precision precision);
  /// Makes what another thread has built count as this thread's memory: parameters and buffers, not
  /// masters.
  void take_over(int number, model::Layer& layer);
  /// Gives each streamed weight a storage of its own.
  void separate_streamed(int number, const model::Layer& layer) const;
  /// If this rank already holds this frozen weight of layer `number`, makes the parameter share it
  /// and returns true.
  bool shares_frozen(int number, const model::Parameter& parameter) const;
  void add_parameters(int number, const std::vector<at::Tensor>& masters);
  bool streams(int number) const { return weights_ != nullptr && weights_->are_of(number); }
  bool is_streamed(int number, const model::Layer& layer, const model::Parameter& parameter) const;
  void stream_weights(int number);

  c10::Device device_;
  Masters masters_;
  std::int64_t seed_;
  StreamedWeights* weights_;
  std::vector<int> numbers_;
  std::map<int, std::unique_ptr<model::Layer>> layers_;
  std::map<int, model::LayerRecipe> recipes_;
  std::map<int, model::InputGradient> input_gradients_;
  std::vector<StageParameter> parameters_;
  std::optional<model::GradientSums> gradients_;
  std::map<int, model::GradientSums> streamed_gradients_;  ///< by layer
};

}  // namespace trireme::runtime
