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

/// What a step's time went into on a rank. forward, backward, recompute, update, wait and copy_wait
/// do not overlap each other, and the rest of the step is host time; copies overlap all of them.
struct StepTimes {
  Seconds forward{0}, backward{0}, recompute{0};
  Seconds update{0};       ///< time of the optimizer's updates
  Seconds wait{0};         ///< time that it waited for other ranks
  Seconds copy{0};         ///< time of copies to and from the offload tier, both directions added
  Seconds copy_wait{0};    ///< time that compute waited for them
  Seconds update_wait{0};  ///< part of copy_wait, within updates

  /// Time in which the rank computes.
  Seconds busy() const { return forward + backward + recompute + update; }
};

/// Share of the copies' time that overlaps other work, 1 - copy_wait / copy, at least 0; nothing
/// where nothing was copied.
std::optional<double> copy_overlap(const StepTimes& times);

/// Device memory in use in addition to the tensors of a run.
struct DeviceReserves {
  Bytes allocator;   ///< peak of the allocator, tensors included
  Bytes workspaces;  ///< workspaces of LibTorch's libraries (cuBLAS), part of `allocator`, taken
                     ///< before the run
  Bytes others;      ///< outside the allocator: contexts, NCCL, other processes
  /// How often the allocator waited for the device, to free unused pages and map others.
  std::int64_t gathered = 0;
};

/// What was measured of one rank; without pointers, so that ranks can exchange it.
struct RankSummary {
  int rank = 0;
  Bytes budget = {};  ///< 0: none
  Bytes peak = {}, static_bytes = {};
  Bytes offloaded_optimizer = {};  ///< optimizer state in the offload tier
  Bytes offloaded_weights = {};    ///< streamed weights, with their gradients
  Bytes process = {};  ///< peak resident memory of its process, its other ranks included
  std::optional<DeviceReserves> reserves = {};  ///< nothing where unknown (CPU)
  StepTimes times = {};                         ///< of the median step
  /// Whether it counts energy: of its device, of which there may be other ranks.
  bool has_meter = false;
  std::optional<Joules> energy = {};  ///< mean of a step; nothing where the meter failed
};

/// What was planned for one rank of a pipeline, and thereby for its counterpart in every replica.
struct PlannedRank {
  struct Prediction {
    Bytes peak;
    Seconds step;  ///< to the end of the rank's own work
    Seconds recompute;
  };

  /// First and last layer of each of its stages; a plan by hand may leave a rank without any.
  std::vector<std::pair<int, int>> layers;
  std::optional<Prediction> predicted = {};  ///< nothing: no prediction was made
};

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

/// Number of parameters of a whole chain, a tied weight once.
struct ParameterCount {
  std::int64_t all = 0, trained = 0;
};

/// A run, as far as it came: what was measured beside what was predicted. Times and speed are of
/// the steps since it was last started.
struct RunSummary {
  EarlyEnd end = {};
  std::int64_t steps = 0;  ///< finished, and their losses known; those before this start included
  std::int64_t resumed_after = 0;     ///< steps that were done before this start
  double train_loss = 0;              ///< mean of the last `train_loss_steps` steps; may be NaN
  std::int64_t train_loss_steps = 1;  ///< `report.log_every`, or all where there are fewer
  std::optional<double> validation_loss = {};
  /// Nats per token of the validation part, see data::UnigramLoss.
  std::optional<double> unigram_entropy = {}, unigram_cross_entropy = {};
  double tokens_per_s = 0;      ///< mean tokens of a step, by the time of the median step
  std::string unit = "tokens";  ///< what these are, for the text: "examples" without tokens
  Seconds step{0};              ///< median
  std::optional<Seconds> predicted_step = {};
  /// The prediction is based on layer costs measured by an earlier run or `trireme profile`.
  bool has_earlier_costs = false;
  ParameterCount parameters = {};
  Seconds total{0}, to_first_step{0};
  std::string parameters_digest = {}, losses_digest = {};
  std::int64_t examples = 0;  ///< that a step trains on, or sequences, over all replicas
  std::optional<Joules> predicted_energy = {};  ///< of a step, over all replicas
  std::string meter = {};                       ///< what has counted energy; empty: nothing has
  std::vector<RankSummary> ranks = {};          ///< of all replicas
  std::vector<PlannedRank> planned = {};        ///< of one pipeline, for ranks that repeat it
};

/// Share of the median step in which ranks do not compute, 1 - busy of all ranks / (ranks x step),
/// at least 0; 0 if no step was made, nothing if nothing is known of ranks.
std::optional<double> bubble(const RunSummary& summary);

/// Joules of a step that ranks have measured, the mean over the steps since the start; nothing
/// where none has a meter, or one failed.
std::optional<Joules> measured_energy(const RunSummary& summary);

/// What was planned for `rank`, one of the summary's.
const PlannedRank& planned_for(const RankSummary& rank, const RunSummary& summary);

/// `trireme-summary/1`. Unknown values and values that are not finite are null; `energy_j` is only
/// there where energy was predicted or measured.
std::string to_json(const RunSummary& summary);

/// Writes to_json to `file`, whole or not at all. Throws Error.
void write(const RunSummary& summary, const std::filesystem::path& file);

/// Number of steps of the completed run whose summary.json this is; nothing if the run ended early
/// or there is no file. Throws InputError for a file that is not a summary.
std::optional<std::int64_t> completed_steps(const std::filesystem::path& file);

/// If the median step took over 20 % longer or shorter than predicted by an earlier profile: by how
/// much, and that `command` measures again. Else empty.
std::string prediction_note(const RunSummary& summary, const std::string& command);

/// The lines above the tables of closing_text: {"train loss", "2.3553, mean of the last 10 steps"},
/// and the digests.
std::vector<std::pair<std::string, std::string>> facts_of(const RunSummary& summary);

/// The text at the end of a run: losses and what token frequencies alone reach, speed, two tables
/// of the ranks (bytes, times of a step), a line on each GPU's other bytes, and the lines
/// "parameters digest: HEX" and "losses digest: HEX". "wait" is for ranks and copies together,
/// "busy" is a share of the step. Updates have a column if they take over 1 % of it.
std::string closing_text(const RunSummary& summary);

}  // namespace trireme::record
