// Trained weights outside of training: export for other programs, and text generation.
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
/// shapes of config::WeightNames, each tied weight once, adapters merged into their weights.
/// Floating-point tensors are converted to `type`. One tensor at a time is in memory. Returns the
/// bytes of all. Throws InputError where the checkpoint is damaged, Error where the file cannot be
/// written or exists already, Interrupted where `stop_requested`, asked before every tensor,
/// returns true.
Bytes export_weights(const std::filesystem::path& checkpoint, const config::ModelSpec& model,
                     at::ScalarType type, const std::filesystem::path& file,
                     const std::function<bool()>& stop_requested = {});

/// The same for the adapters alone, in the names of config::adapter_name(). Throws InputError also
/// if the model has trained anything else.
Bytes export_adapters(const std::filesystem::path& checkpoint, const config::ModelSpec& model,
                      at::ScalarType type, const std::filesystem::path& file,
                      const std::function<bool()>& stop_requested = {});

/// Throws InputError where `job.weights` or `job.adapters` lack a tensor of the model, have one of
/// other sizes, or one that the model does not have. Reads the files' headers alone, so that such
/// an error comes before a long start.
void require_weights(const model::ChainModel& model, const config::JobSpec& job);

/// A whole language model for inference, in float32, on this process's CPU or a device. Tied
/// weights are in memory once.
class LanguageModel {
 public:
  /// With the parameters of a checkpoint, or with weights in any form that `model.weights` takes.
  /// Throws InputError.
  static LanguageModel of_checkpoint(const model::ChainModel& model,
                                     const std::filesystem::path& checkpoint);
  static LanguageModel of_weights(const model::ChainModel& model, const config::ModelSpec& spec,
                                  const std::filesystem::path& weights);

  /// Moves the model to the device.
  void move_to(c10::Device device);

  /// Context length: the most tokens that it sees.
  std::int64_t context() const { return context_; }
  /// Logits [vocabulary], on the CPU, of the token after `tokens`: at least one, of which the last
  /// context() ones count. Runs all of them through the layers.
  at::Tensor next(std::span<const std::int64_t> tokens) const;

 private:
  friend class GrowingText;

  explicit LanguageModel(const model::ChainModel& model);
  void share_ties();
  model::Values on_device(std::span<const std::int64_t> tokens) const;

  std::int64_t context_;
  c10::Device device_{c10::kCPU};
  std::vector<std::string> names_;  ///< by layer
  std::vector<std::unique_ptr<model::Layer>> layers_;
  std::vector<std::optional<std::int64_t>> windows_;  ///< by layer
};

/// Text generation with a KV cache: each token passes the model once, and keys and values of
/// earlier ones are kept in memory, which has room for the longest text.
///
/// Beyond the model's context the oldest tokens are dropped, a quarter of the context at a time,
/// and the rest passes the model once more: it sees the newest `least_seen()` to `context` tokens.
class GrowingText {
 public:
  /// For a text of at most `most_tokens`. The model must outlive it.
  GrowingText(const LanguageModel& model, std::int64_t most_tokens);

  /// LanguageModel::next() of `text`, to rounding. `text` must begin with that of the last call and
  /// be longer.
  at::Tensor next(std::span<const std::int64_t> text);

  /// Fewest tokens that are seen of a text beyond the context.
  std::int64_t least_seen() const { return least_seen_; }

 private:
  /// Runs the next tokens; returns the logits after them.
  at::Tensor pass(std::span<const std::int64_t> piece);

  const LanguageModel& model_;
  std::int64_t least_seen_;
  std::int64_t begin_ = 0;  ///< index in the text of the first token that is seen
  std::int64_t end_ = 0;
  std::vector<model::ForwardByPieces*> layers_;  ///< empty: some layer is not a ForwardByPieces
  std::vector<model::Past> pasts_;               ///< by layer: its KV cache
};

/// How a token is chosen among those that may come next.
struct Sampling {
  double temperature = 1;  ///< logits are divided by it; 0: the most likely token
  int top_k = 0;           ///< draws among the k most likely tokens; 0: among all
};

std::int64_t draw(const at::Tensor& logits_V, const Sampling& sampling, at::Generator& generator);

}  // namespace trireme::runtime
