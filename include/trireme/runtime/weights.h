// What a run has learned, outside of training: handed on to other programs, and asked for what
// comes next.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"
#include "trireme/core/units.h"
#include "trireme/model/chain.h"

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace trireme::runtime {

/// Writes parameters and buffers of a checkpoint into a new safetensors file, in the names and
/// shapes of config::WeightNames, each tied weight once, adapters as part of the weights that they
/// stand beside. Floating ones become `type`. A tensor at a time is in memory. Returns the bytes of
/// all. Throws InputError where the checkpoint is damaged, Error where the file cannot be written
/// or is there already, Interrupted where `stop_requested`, asked before every tensor, says so.
Bytes export_weights(const std::filesystem::path& checkpoint, const config::ModelSpec& model,
                     at::ScalarType type, const std::filesystem::path& file,
                     const std::function<bool()>& stop_requested = {});

/// The same of the adapters alone, in the names of config::adapter_name(). Throws InputError also
/// where the model has trained anything else.
Bytes export_adapters(const std::filesystem::path& checkpoint, const config::ModelSpec& model,
                      at::ScalarType type, const std::filesystem::path& file,
                      const std::function<bool()>& stop_requested = {});

/// Throws InputError where `job.weights` or `job.adapters` lack a tensor of the model, have one of
/// other sizes, or one that the model has not. Reads the files' heads alone, so that a long start
/// does not end there.
void require_weights(const model::ChainModel& model, const config::JobSpec& job);

/// A chain of tokens, whole, on this process's CPU, in float32.
class LanguageModel {
 public:
  /// With the parameters of a checkpoint, or with weights as `model.weights` takes them. Throws
  /// InputError.
  static LanguageModel of_checkpoint(const model::ChainModel& model,
                                     const std::filesystem::path& checkpoint);
  static LanguageModel of_weights(const model::ChainModel& model, const config::ModelSpec& spec,
                                  const std::filesystem::path& weights);

  /// Logits [vocabulary] of the token after `tokens`, of which the last ones count that the context
  /// has room for. At least one token.
  at::Tensor next(std::span<const std::int64_t> tokens) const;

 private:
  explicit LanguageModel(const model::ChainModel& model);

  std::int64_t context_;
  std::vector<std::string> names_;  ///< of the layers
  std::vector<std::unique_ptr<model::Layer>> layers_;
};

/// How a token is chosen among those that may come next.
struct Sampling {
  double temperature = 1;  ///< logits are divided by it; 0: the most likely token
  int top_k = 0;           ///< among so many most likely ones; 0: among all
};

std::int64_t draw(const at::Tensor& logits_V, const Sampling& sampling, at::Generator& generator);

}  // namespace trireme::runtime
