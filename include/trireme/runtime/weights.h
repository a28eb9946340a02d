// What a run has learned, outside of training: handed on to other programs, and asked for what
// comes next.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"
#include "trireme/core/units.h"
#include "trireme/model/chain.h"
#include "trireme/model/past.h"

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
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

/// A chain of tokens, whole, in float32, on this process's CPU or a device. What two layers tie is
/// in memory once.
class LanguageModel {
 public:
  /// With the parameters of a checkpoint, or with weights as `model.weights` takes them. Throws
  /// InputError.
  static LanguageModel of_checkpoint(const model::ChainModel& model,
                                     const std::filesystem::path& checkpoint);
  static LanguageModel of_weights(const model::ChainModel& model, const config::ModelSpec& spec,
                                  const std::filesystem::path& weights);

  /// From now on it computes there.
  void move_to(c10::Device device);
  /// Of each block, how many tokens a token sees, itself included; nothing: all before it. For
  /// texts by pieces alone (GrowingText).
  void set_windows(const std::vector<std::optional<int>>& windows);

  /// The most tokens that it sees.
  std::int64_t context() const { return context_; }
  /// Logits [vocabulary], on the CPU, of the token after `tokens`, of which the last ones count
  /// that the context has room for. At least one token. All of them pass the layers.
  at::Tensor next(std::span<const std::int64_t> tokens) const;

 private:
  friend class GrowingText;

  explicit LanguageModel(const model::ChainModel& model);
  void share_ties();
  model::Values on_device(std::span<const std::int64_t> tokens) const;

  std::int64_t context_;
  c10::Device device_{c10::kCPU};
  std::vector<std::string> names_;  ///< of the layers
  std::vector<std::unique_ptr<model::Layer>> layers_;
  std::vector<std::optional<std::int64_t>> windows_;  ///< of the layers
};

/// A text that grows at its end. Each token passes the model once: keys and values of those before
/// are kept in memory, as many as the text may have.
///
/// Beyond the model's context the oldest tokens are dropped, a quarter of the context at a time,
/// and the rest passes the model once more: it sees the newest `least_seen()` to `context` tokens.
class GrowingText {
 public:
  /// Of at most `most_tokens`. The model must outlive it.
  GrowingText(const LanguageModel& model, std::int64_t most_tokens);

  /// LanguageModel::next() of the text so far, to rounding, in which what the last call was given
  /// has not changed. Longer than then.
  at::Tensor next(std::span<const std::int64_t> text);

  /// Of texts beyond the context.
  std::int64_t least_seen() const { return least_seen_; }

 private:
  /// Logits after the next tokens.
  at::Tensor pass(std::span<const std::int64_t> piece);

  const LanguageModel& model_;
  std::int64_t least_seen_;
  std::int64_t begin_ = 0;  ///< in the text, of what is seen
  std::int64_t end_ = 0;
  std::vector<model::ForwardByPieces*> layers_;  ///< empty: the model has others, too
  std::vector<model::Past> pasts_;               ///< of the layers
};

/// How a token is chosen among those that may come next.
struct Sampling {
  double temperature = 1;  ///< logits are divided by it; 0: the most likely token
  int top_k = 0;           ///< among so many most likely ones; 0: among all
};

std::int64_t draw(const at::Tensor& logits_V, const Sampling& sampling, at::Generator& generator);

}  // namespace trireme::runtime
