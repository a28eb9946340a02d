// A simulation as tables and as JSON.
// SPDX-License-Identifier: Apache-2.0
#include "plan_ranks.h"

#include "trireme/core/text.h"
#include "trireme/io/json.h"
#include "trireme/report/text.h"

#include <algorithm>

namespace trireme::report {
namespace {

using io::Json;

/// Most values listed at a peak.
constexpr std::size_t kMostContents = 6;

std::string rank_table(const plan::Plan& plan, const simulate::Simulation& simulation);
std::string peak_text(const simulate::Peak& peak, int rank);
Json rank_json(const plan::Plan& plan, const simulate::RankResult& result, int rank);
/// Nothing where it is not known.
void add_energy(Json& json, const simulate::Energy& energy);

}  // namespace

std::string simulation_text(const plan::Plan& plan, const simulate::Simulation& simulation) {
  const Seconds ideal = ideal_step(simulation);
  std::string text = concat("step      ", time_text(simulation.step), ", ",
                            over_ideal_text(simulation.step, ideal), "\n");
  if (plan.step > Seconds(0))
    text += concat("planned   ", time_text(plan.step), " (simulated ",
                   overhead_text(simulation.step, plan.step), ")\n");
  text += concat("bubble    ", percent_text(simulation.bubble), "\nrecompute ",
                 time_text(simulation.recompute), " summed over ranks\n",
                 energy_text(plan, simulation), "\n");
  text += rank_table(plan, simulation);
  for (std::size_t rank = 0; rank < simulation.ranks.size(); ++rank)
    text += peak_text(simulation.ranks[rank].peak, static_cast<int>(rank));
  return text;
}

std::string to_json(const plan::Plan& plan, const simulate::Simulation& simulation) {
  Json ranks = Json::array();
  for (std::size_t rank = 0; rank < simulation.ranks.size(); ++rank)
    ranks.push_back(rank_json(plan, simulation.ranks[rank], static_cast<int>(rank)));
  Json document{{"format", "trireme-simulation/1"},
                {"chain", plan.chain_name},
                {"schedule", plan.schedule},
                {"micro_batches", plan.micro_batches},
                {"group", plan.group},
                {"step_s", simulation.step.count()},
                {"ideal_s", ideal_step(simulation).count()},
                {"bubble", simulation.bubble},
                {"recompute_s", simulation.recompute.count()},
                {"ranks", std::move(ranks)}};
  add_energy(document, simulation.energy);
  return io::document(document);
}

namespace {

std::string rank_table(const plan::Plan& plan, const simulate::Simulation& simulation) {
  std::vector<std::vector<std::string>> rows{{"rank", "layers", "busy", "recompute", "wait ranks",
                                              "wait copies", "copy out", "copy in", "moved", "peak",
                                              "budget"}};
  for (std::size_t k = 0; k < simulation.ranks.size(); ++k) {
    const simulate::RankResult& result = simulation.ranks[k];
    const int rank = static_cast<int>(k);
    const Bytes budget = limits_of(plan, rank).budget;
    rows.push_back({concat(rank), layers_of(plan, rank), time_text(result.busy),
                    time_text(result.recompute), time_text(result.wait_for_ranks),
                    time_text(result.wait_for_copies), time_text(result.copies_out),
                    time_text(result.copies_in), to_text(result.moved), to_text(result.peak.size),
                    budget > Bytes(0) ? to_text(budget) : "none"});
  }
  return table(rows);
}

std::string peak_text(const simulate::Peak& peak, int rank) {
  std::string text = concat("\npeak of rank ", rank, ": ", exact_text(peak.size));
  if (peak.action)
    text += concat(" at ", program::to_text(*peak.action), " (action ", peak.index, "), after ",
                   time_text(peak.time));
  text += "\n";
  Bytes rest;
  for (std::size_t k = 0; k < peak.contents.size(); ++k) {
    const auto& [what, size] = peak.contents[k];
    if (k < kMostContents) {
      text += concat("  ", exact_text(size), "  ", what, "\n");
    } else {
      rest += size;
    }
  }
  if (peak.contents.size() > kMostContents)
    text += concat("  ", exact_text(rest), "  in ", peak.contents.size() - kMostContents,
                   " smaller values\n");
  return text;
}

Json rank_json(const plan::Plan& plan, const simulate::RankResult& result, int rank) {
  Json contents = Json::array();
  for (const auto& [what, size] : result.peak.contents)
    contents.push_back({{"what", what}, {"bytes", size.count()}});
  Json peak{{"bytes", result.peak.size.count()},
            {"at_s", result.peak.time.count()},
            {"contents", std::move(contents)}};
  if (result.peak.action) peak["action"] = program::to_text(*result.peak.action);
  Json json{{"rank", rank},
            {"busy_s", result.busy.count()},
            {"recompute_s", result.recompute.count()},
            {"wait_for_ranks_s", result.wait_for_ranks.count()},
            {"wait_for_copies_s", result.wait_for_copies.count()},
            {"copies_out_s", result.copies_out.count()},
            {"copies_in_s", result.copies_in.count()},
            {"end_s", result.end.count()},
            {"budget_bytes", limits_of(plan, rank).budget.count()},
            {"peak_bytes", result.peak.size.count()},
            {"peak", std::move(peak)},
            {"offload_peak_bytes", result.offloaded.all().count()},
            {"moved_bytes", result.moved.count()},
            {"moved_state_bytes", result.state_moved.count()},
            {"moved_weights_bytes", result.weights_moved.count()}};
  add_energy(json, result.energy);
  return json;
}

void add_energy(Json& json, const simulate::Energy& energy) {
  if (energy.all() == Joules(0)) return;
  json["energy_j"] = {{"all", energy.all().count()},
                      {"compute", energy.compute.count()},
                      {"recompute", energy.recompute.count()},
                      {"copies", energy.copies.count()},
                      {"idle", energy.idle.count()}};
}

}  // namespace
}  // namespace trireme::report
