// summary.json and its text: how a run ended, prediction beside measurement.
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

/// Times are those of the step of median length. forward, backward, recompute, update, wait and
/// copy_wait do not overlap each other, and what they leave of the step is the host's; copies run
/// beside them.
struct RankSummary {
  int rank = 0;
  int first_layer = 1, last_layer = 1;  ///< of its first stage
  /// Where the rank has several stages, first and last layer of each of the others.
  std::vector<std::pair<int, int>> further_layers = {};
  Bytes budget;                         ///< 0: none
  std::optional<Bytes> predicted_peak;  ///< nothing: no prediction was made
  Bytes peak, static_bytes;
  std::optional<Bytes> process = {};      ///< most that its process was resident with
  std::optional<Bytes> reserved;          ///< held by the device's allocator, if it says
  std::optional<Seconds> step;            ///< to the end of the rank's own work; nothing: the run's
  std::optional<Seconds> predicted_step;  ///< likewise
  Seconds forward{0}, backward{0}, recompute{0};
  std::optional<Seconds> predicted_recompute;
  Seconds copy{0};       ///< that copies to and from the offload tier took, both directions added
  Seconds copy_wait{0};  ///< that compute stood still for them
  Seconds wait{0};       ///< for other ranks
  /// On the device beside the run's tensors: workspaces of libraries (part of `reserved`), and what
  /// the allocator did not take (contexts, NCCL, other processes); nothing where it is not known.
  std::optional<Bytes> workspaces = {}, outside = {};
  /// How often the allocator waited for the device to gather room; nothing where it is not known.
  std::optional<std::int64_t> gathered = {};
  Bytes optimizer_away = {};  ///< of its optimizer's state, what is in the offload tier
  Bytes weights_away = {};    ///< weights that come from there for every use
  Seconds update{0};          ///< the optimizer's
  Seconds update_wait{0};     ///< of copy_wait, amid it

  /// As everywhere: what it computes.
  Seconds busy() const { return forward + backward + recompute + update; }
};

/// What of the copies' time ran beside other work, 1 - copy_wait / copy, at least 0; nothing where
/// nothing was copied.
std::optional<double> copy_overlap(const RankSummary& rank);

/// How a run ended.
enum class Ending { kCompleted, kStopped, kDiverged, kFailed };

/// "completed", "stopped", "diverged", "failed": as `ended` of summary.json.
std::string_view name(Ending ending);

/// Why a run ended before its last step; of one that completed, its default.
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
  /// The prediction rests on layers' costs that an earlier run, or `trireme profile`, has measured.
  bool has_earlier_costs = false;
  double bubble = 0;  ///< of the median step: 1 - busy of all ranks / (ranks x step)
  /// Numbers in the model's weights, a tied one once; and of these those that are trained.
  std::int64_t parameters = 0, trained_parameters = 0;
  Seconds total{0}, to_first_step{0};
  std::string parameters_digest, losses_digest;
  std::vector<RankSummary> ranks;
};

/// `trireme-summary/1`. What is not known is null, and so is any value that is not finite.
std::string to_json(const Summary& summary);

/// Writes to_json to `file`, whole or not at all. Throws Error.
void write(const Summary& summary, const std::filesystem::path& file);

/// Steps after which the run whose summary.json this is has completed; nothing of one that ended
/// early, and where there is no file. Throws InputError for a file that is no summary.
std::optional<std::int64_t> completed_steps(const std::filesystem::path& file);

/// Where the median step took over 20 % longer or shorter than an earlier profile had it: by how
/// much, and that `command` measures again. Empty elsewhere.
std::string prediction_note(const Summary& summary, const std::string& command);

/// The lines above the tables of closing_text: {"train loss", "2.3553, mean of the last 10 steps"},
/// and the digests.
std::vector<std::pair<std::string, std::string>> facts_of(const Summary& summary);

/// What a person reads at the end: losses beside what token frequencies alone reach, speed, two
/// tables of the ranks (bytes, times of a step), a line on each GPU's other bytes, and the lines
/// "parameters digest: HEX" and "losses digest: HEX". A rank waits for ranks and for copies, and
/// its busy share is that of the step. Updates have a column where they take a hundredth of it.
std::string closing_text(const Summary& summary);

}  // namespace trireme::record
