// summary.json and its text: how a run ended, with predicted and measured values.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme::record {

/// Times are those of the median step. forward, backward, recompute, update, wait and copy_wait do
/// not overlap each other, and the rest of the step is host time; copies overlap all of them.
struct RankSummary {
  int rank = 0;
  int first_layer = 1, last_layer = 1;  ///< those of its first stage
  /// Where the rank has several stages, first and last layer of each of the others.
  std::vector<std::pair<int, int>> further_layers = {};
  Bytes budget;                         ///< 0: none
  std::optional<Bytes> predicted_peak;  ///< nothing: no prediction was made
  Bytes peak, static_bytes;
  std::optional<Bytes> process = {};      ///< peak resident memory of its process
  std::optional<Bytes> reserved;          ///< held by the device's allocator, if known
  std::optional<Seconds> step;            ///< to the end of the rank's own work; nothing: the run's
  std::optional<Seconds> predicted_step;  ///< likewise
  Seconds forward{0}, backward{0}, recompute{0};
  std::optional<Seconds> predicted_recompute;
  Seconds copy{0};       ///< time of copies to and from the offload tier, both directions added
  Seconds copy_wait{0};  ///< time that compute waited for them
  Seconds wait{0};       ///< time that it waited for other ranks
  /// Device bytes in addition to the run's tensors: workspaces of libraries (part of `reserved`),
  /// and what is outside the allocator (contexts, NCCL, other processes); nothing where unknown.
  std::optional<Bytes> workspaces = {}, outside = {};
  /// How often the allocator waited for the device to free memory; nothing where unknown.
  std::optional<std::int64_t> gathered = {};
  Bytes optimizer_away = {};  ///< optimizer state in the offload tier
  Bytes weights_away = {};    ///< streamed weights, with their gradients
  Seconds update{0};          ///< time of the optimizer's updates
  Seconds update_wait{0};     ///< part of copy_wait, within updates

  /// Time in which the rank computes.
  Seconds busy() const { return forward + backward + recompute + update; }
};

/// Share of the copies' time that overlaps other work, 1 - copy_wait / copy, at least 0; nothing
/// where nothing was copied.
std::optional<double> copy_overlap(const RankSummary& rank);

/// How a run ended.
enum class Ending { kCompleted, kStopped, kDiverged, kFailed };

/// "completed", "stopped", "diverged", "failed": as `ended` of summary.json.
std::string_view name(Ending ending);

/// Why a run ended before its last step; default-constructed for one that completed.
struct EarlyEnd {
  Ending ending = Ending::kCompleted;
  std::int64_t step = 0;  ///< in which, or after which, it ended
  /// In words: "stopped in step 14 of 300", "diverged in step 4 of 300: the loss is no number".
  std::string words = {};
};

struct Summary {
  EarlyEnd end = {};
  std::int64_t steps = 0;          ///< finished, and their losses known
  std::int64_t resumed_after = 0;  ///< steps that were done before this start
  double train_loss = 0;           ///< mean of the last `train_loss_steps` steps; may be NaN
  std::int64_t train_loss_steps = 1;
  std::optional<double> validation_loss;
  /// Nats per token of the validation part, see data::UnigramLoss.
  std::optional<double> unigram_entropy, unigram_cross_entropy;
  double tokens_per_s = 0;
  std::string unit = "tokens";  ///< what these are, for the text: "examples" without tokens
  Seconds step{0};              ///< median
  std::optional<Seconds> predicted_step;
  /// The prediction is based on layer costs measured by an earlier run or `trireme profile`.
  bool has_earlier_costs = false;
  double bubble = 0;  ///< in the median step: 1 - busy of all ranks / (ranks x step)
  /// Number of parameters, a tied weight once; and how many of them are trained.
  std::int64_t parameters = 0, trained_parameters = 0;
  Seconds total{0}, to_first_step{0};
  std::string parameters_digest, losses_digest;
  std::vector<RankSummary> ranks;
};

/// `trireme-summary/1`. Unknown values and values that are not finite are null.
std::string to_json(const Summary& summary);

/// Writes to_json to `file`, whole or not at all. Throws Error.
void write(const Summary& summary, const std::filesystem::path& file);

/// Number of steps of the completed run whose summary.json this is; nothing if the run ended early
/// or there is no file. Throws InputError for a file that is not a summary.
std::optional<std::int64_t> completed_steps(const std::filesystem::path& file);

/// If the median step took over 20 % longer or shorter than predicted by an earlier profile: by how
/// much, and that `command` measures again. Else empty.
std::string prediction_note(const Summary& summary, const std::string& command);

/// The lines above the tables of closing_text: {"train loss", "2.3553, mean of the last 10 steps"},
/// and the digests.
std::vector<std::pair<std::string, std::string>> facts_of(const Summary& summary);

/// The text at the end of a run: losses and what token frequencies alone reach, speed, two tables
/// of the ranks (bytes, times of a step), a line on each GPU's other bytes, and the lines
/// "parameters digest: HEX" and "losses digest: HEX". "wait" is for ranks and copies together,
/// "busy" is a share of the step. Updates have a column if they take over 1 % of it.
std::string closing_text(const Summary& summary);

}  // namespace trireme::record
