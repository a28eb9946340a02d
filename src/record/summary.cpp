// SPDX-License-Identifier: Apache-2.0
#include "trireme/record/summary.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/io/file.h"
#include "trireme/io/json.h"
#include "trireme/io/node.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

namespace trireme::record {
namespace {

using io::Json;

constexpr std::array kEndings{Ending::kCompleted, Ending::kStopped, Ending::kDiverged,
                              Ending::kFailed};

Json number_or_null(const std::optional<double>& value);
/// Null if empty.
Json text_or_null(const std::string& text);
/// Measured and predicted joules.
Json energy_json(const RunSummary& summary);
Json rank_json(const RankSummary& rank, const PlannedRank& planned);

}  // namespace

std::string_view name(Ending ending) {
  switch (ending) {
    case Ending::kCompleted:
      return "completed";
    case Ending::kStopped:
      return "stopped";
    case Ending::kDiverged:
      return "diverged";
    case Ending::kFailed:
      return "failed";
  }
  return "";
}

std::string to_json(const RunSummary& summary) {
  Json json;
  json["format"] = "trireme-summary/1";
  const bool is_whole = summary.end.ending == Ending::kCompleted;
  json["ended"] = name(summary.end.ending);
  json["ended_in_step"] = is_whole ? Json(nullptr) : Json(summary.end.step);
  json["ended_how"] = text_or_null(summary.end.words);
  json["steps"] = summary.steps;
  json["resumed_after_steps"] = summary.resumed_after;
  const bool has_loss = summary.train_loss_steps > 0;
  json["train_loss"] = has_loss ? Json(summary.train_loss) : Json(nullptr);
  json["train_loss_steps"] = summary.train_loss_steps;
  json["validation_loss"] = number_or_null(summary.validation_loss);
  json["unigram_entropy"] = number_or_null(summary.unigram_entropy);
  json["unigram_cross_entropy"] = number_or_null(summary.unigram_cross_entropy);
  const bool has_step = is_whole || summary.step > Seconds(0);
  json["step_s"] = has_step ? Json(summary.step.count()) : Json(nullptr);
  json["tokens_per_s"] = has_step ? Json(summary.tokens_per_s) : Json(nullptr);
  json["predicted_step_s"] =
      summary.predicted_step ? Json(summary.predicted_step->count()) : Json(nullptr);
  json["bubble"] = number_or_null(bubble(summary));
  if (summary.predicted_energy || measured_energy(summary)) json["energy_j"] = energy_json(summary);
  json["parameters"] = summary.parameters.all;
  json["trained_parameters"] = summary.parameters.trained;
  json["seconds_total"] = summary.total.count();
  json["seconds_to_first_step"] = summary.to_first_step.count();
  json["parameters_digest"] = text_or_null(summary.parameters_digest);
  json["losses_digest"] = text_or_null(summary.losses_digest);
  json["ranks"] = Json::array();
  for (const RankSummary& rank : summary.ranks)
    json["ranks"].push_back(rank_json(rank, planned_for(rank, summary)));
  return io::document(json);
}

std::optional<double> bubble(const RunSummary& summary) {
  if (summary.ranks.empty()) return std::nullopt;
  double busy = 0;
  for (const RankSummary& rank : summary.ranks) busy += rank.times.busy().count();
  const double available = static_cast<double>(summary.ranks.size()) * summary.step.count();
  return available > 0 ? std::max(0.0, 1 - busy / available) : 0;
}

std::optional<Joules> measured_energy(const RunSummary& summary) {
  std::optional<Joules> sum;
  for (const RankSummary& rank : summary.ranks) {
    if (!rank.has_meter) continue;
    if (!rank.energy) return std::nullopt;
    sum = sum.value_or(Joules(0)) + *rank.energy;
  }
  return sum;
}

const PlannedRank& planned_for(const RankSummary& rank, const RunSummary& summary) {
  ensure(!summary.planned.empty(), "ranks that ran were planned");
  return summary.planned[static_cast<std::size_t>(rank.rank) % summary.planned.size()];
}

std::optional<double> copy_overlap(const StepTimes& times) {
  if (times.copy <= Seconds(0)) return std::nullopt;
  return std::max(0.0, 1 - times.copy_wait / times.copy);
}

void write(const RunSummary& summary, const std::filesystem::path& file) {
  io::write_own_file(file, to_json(summary));
}

std::optional<std::int64_t> completed_steps(const std::filesystem::path& file) {
  std::error_code none;
  if (!std::filesystem::exists(file, none)) return std::nullopt;
  const io::Node summary = io::load(file);
  // Summaries of earlier versions, which wrote one of completed runs alone, do not have it.
  if (const auto ended = summary.find("ended")) {
    const std::string found = ended->text();
    const auto ending = std::find_if(kEndings.begin(), kEndings.end(),
                                     [&](Ending one) { return name(one) == found; });
    if (ending == kEndings.end())
      ended->fail(
          concat("is ", ended->found(), ", must say how the run ended: the file is damaged"));
    if (*ending != Ending::kCompleted) return std::nullopt;
  }
  const auto steps = summary.find("steps");
  return steps ? steps->integer(0, std::numeric_limits<std::int64_t>::max()) : 0;
}

namespace {

Json number_or_null(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

Json energy_json(const RunSummary& summary) {
  Json json;
  const auto write = [&](const std::string& prefix, const std::optional<Joules>& energy) {
    json[prefix + "step"] = energy ? Json(energy->count()) : Json(nullptr);
    json[prefix + "example"] = energy && summary.examples > 0
                                   ? Json(energy->count() / static_cast<double>(summary.examples))
                                   : Json(nullptr);
  };
  write("", measured_energy(summary));
  write("predicted_", summary.predicted_energy);
  json["meter"] = text_or_null(summary.meter);
  return json;
}

Json rank_json(const RankSummary& rank, const PlannedRank& planned) {
  const auto& predicted = planned.predicted;
  const auto& reserves = rank.reserves;
  const StepTimes& times = rank.times;
  Json json;
  json["rank"] = rank.rank;
  json["layers"] = planned.layers.empty() ? Json(nullptr) : Json(planned.layers.front());
  if (planned.layers.size() > 1)
    json["further_layers"] = std::vector(planned.layers.begin() + 1, planned.layers.end());
  json["budget_bytes"] = rank.budget.count();
  json["predicted_peak_bytes"] = predicted ? Json(predicted->peak.count()) : Json(nullptr);
  json["peak_bytes"] = rank.peak.count();
  json["static_bytes"] = rank.static_bytes.count();
  json["optimizer_away_bytes"] = rank.offloaded_optimizer.count();
  json["weights_away_bytes"] = rank.offloaded_weights.count();
  json["process_bytes"] = rank.process.count();
  json["reserved_bytes"] = reserves ? Json(reserves->allocator.count()) : Json(nullptr);
  json["workspace_bytes"] = reserves ? Json(reserves->workspaces.count()) : Json(nullptr);
  json["outside_bytes"] = reserves ? Json(reserves->others.count()) : Json(nullptr);
  json["allocator_waits"] = reserves ? Json(reserves->gathered) : Json(nullptr);
  json["step_s"] = nullptr;  // the median step is the run's: no rank has measured one of its own
  json["predicted_step_s"] = predicted ? Json(predicted->step.count()) : Json(nullptr);
  json["forward_s"] = times.forward.count();
  json["backward_s"] = times.backward.count();
  json["recompute_s"] = times.recompute.count();
  json["predicted_recompute_s"] = predicted ? Json(predicted->recompute.count()) : Json(nullptr);
  json["update_s"] = (times.update + times.update_wait).count();
  json["update_wait_s"] = times.update_wait.count();
  json["copy_s"] = times.copy.count();
  json["copy_wait_s"] = times.copy_wait.count();
  json["copy_overlap"] = number_or_null(copy_overlap(times));
  json["wait_s"] = times.wait.count();
  return json;
}

}  // namespace
}  // namespace trireme::record
