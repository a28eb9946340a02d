// SPDX-License-Identifier: Apache-2.0
#include "saved/initial_weights.h"

#include "saved/gathered_names.h"
#include "saved/weights_reader.h"
#include "state/built_buffers.h"

#include "trireme/comm/heartbeat.h"
#include "trireme/config/adapters.h"
#include "trireme/core/text.h"
#include "trireme/model/kinds.h"
#include "trireme/runtime/weights.h"

#include <filesystem>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace trireme::runtime {
namespace {

/// Sources of the initial values of a job's chain.
class Sources {
 public:
  explicit Sources(const config::JobSpec& job) : weights_(job.weights, job.model) {
    if (!job.adapters.empty()) adapters_ = WeightsReader::of_adapters(job.adapters, job.model);
  }

  /// Source of a parameter or buffer of this name; null for adapters that begin without effect.
  const WeightsReader* of(const std::string& name) const {
    if (!config::is_adapter(name)) return &weights_;
    return adapters_ ? &*adapters_ : nullptr;
  }
  void require_nothing_left(const std::set<std::string>& taken) const {
    weights_.require_nothing_left(taken);
    if (adapters_) adapters_->require_nothing_left(taken);
  }
  void require_nothing_new(const config::ModelSpec& model) const {
    weights_.require_nothing_new(model);
  }

 private:
  WeightsReader weights_;
  std::optional<WeightsReader> adapters_;
};

/// A tensor of the chain that may get other initial values.
struct Wanted {
  std::string layer, name;
  at::Tensor value;           ///< the buffer; undefined for a parameter
  std::size_t parameter = 0;  ///< else the index in Stage::parameters()
};

std::vector<Wanted> wanted_by(Stage& stage) {
  std::vector<Wanted> wanted;
  for (std::size_t i = 0; i < stage.parameters().size(); ++i) {
    const StageParameter& parameter = stage.parameters()[i];
    if (parameter.shares_value) continue;
    const auto& in_layer = stage.layer(parameter.layer).parameters();
    const std::string& name = in_layer.at(static_cast<std::size_t>(parameter.index)).name;
    wanted.push_back(
        {.layer = stage.layer_name(parameter.layer), .name = name, .value = {}, .parameter = i});
  }
  for (const int number : stage.layers())
    for (const model::Buffer& buffer : stage.layer(number).buffers())
      wanted.push_back(
          {.layer = stage.layer_name(number), .name = buffer.name, .value = buffer.value});
  return wanted;
}

}  // namespace

void begin_with_weights(comm::Channel& channel, Stage& stage, Optimizer& optimizer,
                        const config::JobSpec& job) {
  const std::vector<Wanted> wanted = wanted_by(stage);
  Optimizer::Access state(optimizer);
  std::optional<Sources> sources;
  std::string taken;
  std::size_t next = 0;
  const auto piece = [&] {
    if (!sources) sources.emplace(job);
    if (next == wanted.size()) return false;
    const Wanted& one = wanted[next++];
    const WeightsReader* const source = sources->of(one.name);
    if (source == nullptr) return true;
    const auto read = [&](const at::Tensor& value) {
      const bool is_constant = one.value.defined() && !no_number_in(value).empty();
      taken += source->read(one.layer, one.name, value, is_constant) + '\n';
    };
    if (one.value.defined()) {
      read(one.value);
    } else {
      state.change(one.parameter, Optimizer::StateTensor::kValue, read);
    }
    return true;
  };
  comm::run_pieces_with_heartbeat(channel, piece, "reading of weights");

  sources->require_nothing_left(gathered_names(channel, taken, "tensors of weights"));
  const auto look = [&] {
    if (channel.rank() == 0) sources->require_nothing_new(job.model);
  };
  comm::run_with_heartbeat(channel, look, "check of tensors besides the weights");
}

void require_weights(const model::ChainModel& model, const config::JobSpec& job) {
  using Sizes = std::vector<std::pair<std::string, std::vector<std::int64_t>>>;
  std::error_code failure;
  if (!std::filesystem::exists(job.weights, failure))
    job.fail("model.weights", concat("is ", job.weights, ", which is not there"));
  const Sources sources(job);
  const auto sizes_of = [](const model::Layer& layer) {
    Sizes sizes;
    for (const model::Parameter& each : layer.parameters())
      sizes.emplace_back(each.name, each.value.sizes().vec());
    for (const model::Buffer& each : layer.buffers())
      sizes.emplace_back(each.name, each.value.sizes().vec());
    return sizes;
  };
  const std::vector<Sizes> of_layers = model::of_every_layer(model, sizes_of);
  std::set<std::string> taken;
  for (std::size_t i = 0; i < of_layers.size(); ++i)
    for (const auto& [name, sizes] : of_layers[i])
      if (const WeightsReader* const source = sources.of(name))
        taken.insert(source->name_of(model.layers[i].name, name, sizes));
  sources.require_nothing_left(taken);
  sources.require_nothing_new(job.model);
}

}  // namespace trireme::runtime
