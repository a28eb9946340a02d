// What one rank holds while the run lives: its layers, their parameters and the sums of their
// gradients.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/error.h"
#include "trireme/core/units.h"
#include "trireme/model/chain.h"
#include "trireme/model/gradient_sums.h"
#include "trireme/model/layer.h"
#include "trireme/model/precision.h"
#include "trireme/runtime/streamed_weights.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace trireme::runtime {

/// One use of a weight by one layer of this rank.
struct StageParameter {
  int layer = 0;
  int index = 0;       ///< within its layer
  std::string name;    ///< "block0.mlp/up.weight"
  std::string tie;     ///< empty: this is its only use
  std::string begins;  ///< of a tied one: a digest of the value that it begins with
  bool shares_value =
      false;  ///< its value is the storage of an earlier use on this rank: not stepped again
  bool is_trained = true;
  bool is_streamed = false;  ///< its weight is here only while Stage::weights() holds its layer
  /// float32, what is trained; of a frozen one `weight`. Undefined where the optimizer has it in
  /// the offload tier, and where the stage keeps no masters until put_master().
  at::Tensor value;
  at::Tensor weight;    ///< what the layer computes with: `value`, or its rounding
  at::Tensor gradient;  ///< its sum, here while its weight is; undefined of a frozen one
};

/// Of two uses of one weight that do not begin with the same values.
InputError unlike_uses(const std::string& tie, const std::string& first, const std::string& second);

/// Layers of one rank, built from recipes. Gradients exist from the start, as model::GradientSums:
/// one flat buffer for all that stay here, one for each layer whose trained weights are streamed;
/// backward adds to them. Uses of a tied weight share their value on one rank but
/// never their gradients, so that sums keep chain order.
class Stage {
 public:
  /// Where the masters are of weights that layers compute with in another type.
  enum class Masters {
    kDevice,      ///< on the device, each as `value` of its parameter
    kDrawnAgain,  ///< nowhere: whoever puts them elsewhere draws layer by layer once more
  };
  /// Builds `layers` (ascending numbers of 1..L) with initial values that depend on (seed, layer)
  /// alone, few at a time, then moves them to `device`. Of the layers of `weights`, which must
  /// outlive it, weights that no other layer has leave at once: the frozen ones, or the trained
  /// ones with their gradients where there are none of those. Throws InputError where two uses of a
  /// weight do not begin with the same values.
  Stage(const model::ChainModel& model, std::vector<int> layers, std::int64_t seed,
        model::Precision precision = model::Precision::kFloat32,
        c10::Device device = c10::DeviceType::CPU, Masters masters = Masters::kDevice,
        StreamedWeights* weights = nullptr);

  c10::Device device() const { return device_; }
  /// Where masters were when it was built.
  Masters masters() const { return masters_; }
  /// A layer as it was first built: on the host, all of it float32. For any thread.
  std::unique_ptr<model::Layer> draw(int number) const;

  /// Those that come and go; null: all weights stay.
  StreamedWeights* weights() const { return weights_; }

  const std::vector<int>& layers() const { return numbers_; }
  /// Whether the layer after it is elsewhere: its output goes to another rank, or is the loss.
  bool ends_run(int number) const { return !layers_.contains(number + 1); }
  model::Layer& layer(int number) { return *layers_.at(number); }
  const std::string& layer_name(int number) const { return recipes_.at(number).name; }
  model::InputGradient input_gradient(int number) const { return input_gradients_.at(number); }

  /// In chain order.
  const std::vector<StageParameter>& parameters() const { return parameters_; }

  /// The master of a parameter is this from now on, for all uses that share it; undefined where it
  /// is no longer held here.
  void put_master(std::size_t parameter, const at::Tensor& master);

  /// Of what stays here.
  model::GradientSums& gradients() { return *gradients_; }
  /// Of the layer's streamed weights; null where there are none.
  model::GradientSums* streamed_gradients(int layer);
  /// All sums are as good as zero, but those of these layers' streamed weights.
  void begin_gradients(const std::set<int>& but = {});

  Bytes parameter_bytes() const;  ///< of weights as layers compute with them
  Bytes gradient_bytes() const;

 private:
  /// Whether another thread builds it.
  bool is_built_apart(int number) const;
  void add_layer(int number, std::unique_ptr<model::Layer> built, model::Precision precision);
  /// What another thread has built counts here: parameters and buffers, not masters.
  void take_over(int number, model::Layer& layer);
  /// What leaves stands in storages of its own.
  void separate_streamed(int number, const model::Layer& layer) const;
  /// Whether a frozen weight of layer `number` is one that this rank holds already; it is that one
  /// then.
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
