// SPDX-License-Identifier: Apache-2.0
#include "trireme/record/summary.h"

#include "trireme/io/file.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace trireme::record {
namespace {

using Json = nlohmann::ordered_json;

Json number_or_null(const std::optional<double>& value);
template <class Unit>
Json count_or_null(const std::optional<Unit>& value);
Json rank_json(const RankSummary& rank);

}  // namespace

std::string to_json(const Summary& summary) {
  Json json;
  json["format"] = "trireme-summary/1";
  json["steps"] = summary.steps;
  json["resumed_after_steps"] = summary.resumed_after;
  json["train_loss"] = summary.train_loss;
  json["train_loss_steps"] = summary.train_loss_steps;
  json["validation_loss"] = number_or_null(summary.validation_loss);
  json["unigram_entropy"] = number_or_null(summary.unigram_entropy);
  json["unigram_cross_entropy"] = number_or_null(summary.unigram_cross_entropy);
  json["tokens_per_s"] = summary.tokens_per_s;
  json["step_s"] = summary.step.count();
  json["predicted_step_s"] = count_or_null(summary.predicted_step);
  json["bubble"] = summary.bubble;
  json["seconds_total"] = summary.total.count();
  json["seconds_to_first_step"] = summary.to_first_step.count();
  json["parameters_digest"] = summary.parameters_digest;
  json["losses_digest"] = summary.losses_digest;
  json["ranks"] = Json::array();
  for (const RankSummary& rank : summary.ranks) json["ranks"].push_back(rank_json(rank));
  return json.dump(2) + "\n";
}

std::optional<double> copy_overlap(const RankSummary& rank) {
  if (rank.copy <= Seconds(0)) return std::nullopt;
  return std::max(0.0, 1 - rank.copy_wait / rank.copy);
}

void write(const Summary& summary, const std::filesystem::path& file) {
  io::write_own_file(file, to_json(summary));
}

namespace {

Json number_or_null(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

template <class Unit>
Json count_or_null(const std::optional<Unit>& value) {
  return value ? Json(value->count()) : Json(nullptr);
}

Json rank_json(const RankSummary& rank) {
  Json json;
  json["rank"] = rank.rank;
  json["layers"] = {rank.first_layer, rank.last_layer};
  if (!rank.further_layers.empty()) json["further_layers"] = rank.further_layers;
  json["budget_bytes"] = rank.budget.count();
  json["predicted_peak_bytes"] = count_or_null(rank.predicted_peak);
  json["peak_bytes"] = rank.peak.count();
  json["static_bytes"] = rank.static_bytes.count();
  json["optimizer_away_bytes"] = rank.optimizer_away.count();
  json["weights_away_bytes"] = rank.weights_away.count();
  json["process_bytes"] = count_or_null(rank.process);
  json["reserved_bytes"] = count_or_null(rank.reserved);
  json["workspace_bytes"] = count_or_null(rank.workspaces);
  json["outside_bytes"] = count_or_null(rank.outside);
  json["allocator_waits"] = rank.gathered ? Json(*rank.gathered) : Json(nullptr);
  json["step_s"] = count_or_null(rank.step);
  json["predicted_step_s"] = count_or_null(rank.predicted_step);
  json["forward_s"] = rank.forward.count();
  json["backward_s"] = rank.backward.count();
  json["recompute_s"] = rank.recompute.count();
  json["predicted_recompute_s"] = count_or_null(rank.predicted_recompute);
  json["update_s"] = (rank.update + rank.update_wait).count();
  json["update_wait_s"] = rank.update_wait.count();
  json["copy_s"] = rank.copy.count();
  json["copy_wait_s"] = rank.copy_wait.count();
  json["copy_overlap"] = number_or_null(copy_overlap(rank));
  json["wait_s"] = rank.wait.count();
  return json;
}

}  // namespace
}  // namespace trireme::record
