// What was measured in every step, and metrics.jsonl: one JSON object per line.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trireme::record {

/// Results of one training step.
struct StepMetrics {
  std::int64_t step = 0;  ///< from 1
  double loss = 0;        ///< mean over its micro-batches
  double learning_rate = 0;
  std::optional<double> gradient_norm = {};  ///< before clipping, where a clip ran
  Seconds time{0};
  std::int64_t tokens = 0;  ///< that it trained on; examples if a chain takes no tokens
};

/// Names of the curves, in metrics.jsonl and in TensorBoard.
inline constexpr const char *kTrainLoss = "train_loss", *kValidationLoss = "validation_loss",
                            *kThroughput = "tokens_per_s", *kGradientNorm = "gradient_norm",
                            *kLearningRate = "learning_rate", *kStepTime = "step_s";

/// A point of a curve.
struct Scalar {
  std::string name;  ///< "train_loss"
  double value = 0;

  bool operator==(const Scalar&) const = default;
};

/// What is written about a step: a line of metrics.jsonl, and a point of every curve that it names.
struct MetricsLine {
  std::int64_t step = 0;
  std::vector<Scalar> values;

  bool operator==(const MetricsLine&) const = default;
};

MetricsLine line_of(const StepMetrics& metrics);
/// The line of a validation after `step` steps.
MetricsLine validation_line(std::int64_t step, double loss);

/// Appends lines {"step": 12, "train_loss": 2.5, ...}. Doubles read back as the same doubles; JSON
/// has no infinities and no NaN, they are written as null.
class MetricsFile {
 public:
  /// Continues `file` if `first_step`, the first step that will be appended, is not 0: lines of
  /// that and later steps are dropped, and with them a last line that was cut short by a crash. 0
  /// starts a new file. Creates missing folders. Throws InputError for a line that is not a metrics
  /// line, Error if the file cannot be written.
  MetricsFile(std::filesystem::path file, std::int64_t first_step);

  /// Appends one line, which the system has before this returns. Throws Error.
  void append(const MetricsLine& line);
  /// Forces all lines so far to disk. Throws Error.
  void flush() const;

  /// Whether the file is still found under its name: not if it was removed, renamed or replaced,
  /// alone or with its folder.
  bool is_there() const;
  const std::filesystem::path& file() const { return file_; }

 private:
  std::filesystem::path file_;
  std::ofstream out_;
  std::pair<std::uint64_t, std::uint64_t> opened_;
};

/// The lines of a metrics file, in order; a value of null is NaN. Throws InputError for a line that
/// is not a metrics line, Error where the file cannot be read.
std::vector<MetricsLine> read_metrics(const std::filesystem::path& file);

}  // namespace trireme::record
