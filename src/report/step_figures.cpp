// SPDX-License-Identifier: Apache-2.0
#include "step_figures.h"

#include "markup.h"

#include "trireme/core/text.h"
#include "trireme/report/text.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

namespace trireme::report {
namespace {

using simulate::RankResult;
using simulate::Simulation;

std::string step_card(const StepFigures& step);
std::string bubble_card(const Timelines& timelines);
std::string recompute_card(const Timelines& timelines);
/// The peak of the rank nearest to its budget, or of the largest peak without budgets.
std::string peak_card(const StepFigures& step);
std::string kept_card(const plan::Plan& plan);
std::string copies_card(const Timelines& timelines);
/// Predicted energy, where the chain or the platform says what it costs; "" elsewhere.
std::string energy_card(const Timelines& timelines);
Seconds copies_of(const Simulation& simulation);
/// Share of the copies that overlapped with compute; for a step with copies.
std::string overlap_text(const Simulation& simulation);
/// A kind of bytes that are offloaded.
struct MovedKind {
  std::string_view name, column;
  Bytes RankResult::*size;
};
constexpr std::array<MovedKind, 3> kKinds{
    {{"activations", "moved: activations", &RankResult::moved},
     {"optimizer state", "moved: state", &RankResult::state_moved},
     {"weights, gradients", "moved: weights", &RankResult::weights_moved}}};
Bytes moved_by(const Simulation& simulation, const MovedKind& kind);
Bytes moved_by(const Simulation& simulation);
/// The kinds that any rank moves, predicted or measured.
std::vector<MovedKind> moved_kinds(const Timelines& timelines);
/// Time of a rank's measured step that is neither compute nor waiting.
Seconds other_time(const RankResult& rank);
std::vector<std::string> rank_row(std::string_view what, const RankResult& rank, Bytes budget);

}  // namespace

std::vector<Limits> limits_of(const plan::Plan& plan, const Timelines& timelines,
                              const std::vector<Bytes>& budgets) {
  std::vector<Limits> limits;
  for (int rank = 0; rank < timelines.ranks(); ++rank) {
    limits.push_back(limits_of(plan, timelines.predicted_rank(rank)));
    if (static_cast<std::size_t>(rank) < budgets.size())
      limits.back().budget = budgets[static_cast<std::size_t>(rank)];
  }
  return limits;
}

double fullness(const StepFigures& step, int rank) {
  const auto place = static_cast<std::size_t>(rank);
  const Bytes peak = step.timelines.main()->ranks[place].peak.size;
  const Bytes budget = step.limits[place].budget;
  if (budget > Bytes(0)) return peak / budget;
  Bytes most(1);
  for (const RankResult& other : step.timelines.main()->ranks)
    most = std::max(most, other.peak.size);
  return peak / most;
}

std::string cards(const StepFigures& step) {
  if (step.timelines.main() == nullptr) return "";
  return element("div", {{"class", "cards"}},
                 step_card(step) + bubble_card(step.timelines) + recompute_card(step.timelines) +
                     peak_card(step) + kept_card(step.plan) + copies_card(step.timelines) +
                     energy_card(step.timelines)) +
         "\n";
}

std::vector<std::vector<std::string>> rank_rows(const StepFigures& step) {
  std::vector<std::vector<std::string>> rows{{"rank", "layers", "budget", "", "peak", "of budget",
                                              "busy", "recompute", "waits: ranks", "waits: copies",
                                              "copies out", "copies in"}};
  const std::vector<MovedKind> kinds = moved_kinds(step.timelines);
  for (const MovedKind& kind : kinds) rows.front().emplace_back(kind.column);
  const bool with_other = step.timelines.measured != nullptr;
  if (with_other) rows.front().emplace_back("other");
  for (int rank = 0; rank < step.timelines.ranks(); ++rank) {
    const Bytes budget = step.limits[static_cast<std::size_t>(rank)].budget;
    std::vector<std::string> front{concat(rank),
                                   layers_of(step.plan, step.timelines.predicted_rank(rank)),
                                   budget > Bytes(0) ? to_text(budget) : "none"};
    const auto add = [&](std::string_view what, const RankResult* result, bool measures) {
      if (result == nullptr) return;
      rows.push_back(front);
      for (std::string& cell : rank_row(what, *result, budget))
        rows.back().push_back(std::move(cell));
      for (const MovedKind& kind : kinds) rows.back().push_back(to_text(result->*kind.size));
      if (with_other) rows.back().push_back(measures ? time_text(other_time(*result)) : "");
      front.assign(front.size(), "");
    };
    add("predicted", step.timelines.predicted_of(rank), false);
    add("measured", step.timelines.measured_of(rank), true);
  }
  return rows;
}

bool has_offloaded(const plan::Plan& plan) {
  return std::any_of(plan.stages.begin(), plan.stages.end(), [](const plan::StagePlan& stage) {
    return stage.offloaded_optimizer > Bytes(0) || !stage.streamed.empty();
  });
}

std::vector<std::vector<std::string>> stage_rows(const plan::Plan& plan) {
  const bool has_chunks =
      schedule::shares_ranks(plan::placement(plan));  // counted from 0, as in `order`
  std::vector<std::vector<std::string>> rows{{has_chunks ? "chunk" : "stage", "rank", "layers",
                                              "in flight", "forward", "backward", "static", "kept",
                                              "moved", "peak", "budget"}};
  const bool some_offloaded = std::any_of(
      plan.stages.begin(), plan.stages.end(),
      [](const plan::StagePlan& stage) { return stage.offloaded_optimizer > Bytes(0); });
  if (some_offloaded) rows.front().emplace_back("optimizer offloaded");
  const bool some_streamed =
      std::any_of(plan.stages.begin(), plan.stages.end(),
                  [](const plan::StagePlan& stage) { return !stage.streamed.empty(); });
  if (some_streamed) rows.front().emplace_back("layers streamed");
  const bool is_split = plan::has_split_backward(plan);
  const std::vector<int> in_flight = plan::in_flight(plan);
  const std::vector<std::optional<int>> deferred = plan::deferred_passes(plan);
  if (is_split) rows.front().emplace_back("weight gradients deferred");
  const bool some_clocks = plan::names_clocks(plan);
  if (some_clocks) rows.front().insert(rows.front().end(), {"forward clock", "backward clock"});
  for (std::size_t k = 0; k < plan.stages.size(); ++k) {
    const plan::StagePlan& stage = plan.stages[k];
    rows.push_back({concat(has_chunks ? k : k + 1), concat(stage.rank),
                    range_text(stage.program.first_layer, stage.program.last_layer),
                    concat(in_flight[k]), time_text(stage.predicted.forward),
                    time_text(stage.predicted.backward), to_text(stage.static_bytes),
                    to_text(stage.predicted.kept), to_text(stage.predicted.offloaded),
                    to_text(stage.predicted.peak),
                    stage.budget > Bytes(0) ? to_text(stage.budget) : "none"});
    if (some_offloaded) rows.back().push_back(to_text(stage.offloaded_optimizer));
    if (some_streamed) rows.back().push_back(concat(stage.streamed.size()));
    if (is_split) rows.back().push_back(deferred[k] ? concat(*deferred[k]) : "-");
    if (some_clocks)
      for (const std::string& clock : {stage.forward_clock, stage.backward_clock})
        rows.back().push_back(clock.empty() ? "usual" : clock);
  }
  return rows;
}

namespace {

std::string step_card(const StepFigures& step) {
  const Timelines& timelines = step.timelines;
  const Simulation& main = *timelines.main();
  std::vector<std::string> more;
  if (timelines.both()) {
    const Seconds predicted = timelines.predicted->step;
    more = {concat("predicted ", time_text(predicted)),
            concat("measured ", overhead_text(main.step, predicted))};
  } else {
    const Seconds ideal = ideal_step(main);
    more = {concat(overhead_text(main.step, ideal), " over the ideal ", time_text(ideal), ":"),
            "no waits, no recomputation"};
  }
  if (timelines.measured != nullptr && step.steps > 1) {
    more.push_back(concat("step ", step.number, " of ", step.steps));
    more.push_back(concat("median ", time_text(step.median)));
  }
  return card("step", time_text(main.step), more);
}

std::string bubble_card(const Timelines& timelines) {
  std::vector<std::string> more{"of the ranks' time in this step"};
  if (timelines.both())
    more.insert(more.begin(), concat("predicted ", percent_text(timelines.predicted->bubble)));
  return card("bubble", percent_text(timelines.main()->bubble), more);
}

std::string recompute_card(const Timelines& timelines) {
  return card("recompute", time_text(timelines.main()->recompute),
              {timelines.both() ? concat("predicted ", time_text(timelines.predicted->recompute))
                                : "summed over ranks"});
}

std::string peak_card(const StepFigures& step) {
  int fullest = 0;
  for (int rank = 1; rank < step.timelines.ranks(); ++rank) {
    if (fullness(step, rank) > fullness(step, fullest)) fullest = rank;
  }
  const auto place = static_cast<std::size_t>(fullest);
  const Bytes budget = step.limits[place].budget;
  std::vector<std::string> more{budget > Bytes(0) ? concat("of ", to_text(budget)) : "no budget"};
  if (step.timelines.both())
    more.insert(more.begin(),
                concat("predicted ", to_text(step.timelines.predicted_of(fullest)->peak.size)));
  return card(step.limits.size() > 1 ? concat("peak of rank ", fullest) : "peak",
              to_text(step.timelines.main()->ranks[place].peak.size), more);
}

std::string kept_card(const plan::Plan& plan) {
  Bytes kept;
  for (const plan::StagePlan& stage : plan.stages) kept = std::max(kept, stage.predicted.kept);
  return kept > Bytes(0) ? card("kept", to_text(kept), {"per micro-batch,", "at most"}) : "";
}

std::string copies_card(const Timelines& timelines) {
  const Simulation& main = *timelines.main();
  if (copies_of(main) == Seconds(0)) return card("moved", "nothing", {"to the offload tier"});
  std::vector<std::string> more;
  for (const MovedKind& kind : kKinds) {
    const Bytes moved = moved_by(main, kind);
    if (moved > Bytes(0)) more.push_back(concat(to_text(moved), " of ", kind.name));
  }
  more.push_back(concat("per step, ", overlap_text(main), " overlapped"));
  if (timelines.both() && copies_of(*timelines.predicted) > Seconds(0))
    more.push_back(concat("predicted ", to_text(moved_by(*timelines.predicted)), ", ",
                          overlap_text(*timelines.predicted)));
  return card("moved", to_text(moved_by(main)), more);
}

std::string energy_card(const Timelines& timelines) {
  if (timelines.predicted == nullptr) return "";
  const simulate::Energy& energy = timelines.predicted->energy;
  if (energy.all() == Joules(0)) return "";
  std::vector<std::string> more{"per step, predicted"};
  const auto add = [&](Joules part, std::string_view of) {
    if (part > Joules(0)) more.push_back(concat(to_text(part), " ", of));
  };
  add(energy.recompute, "recompute");
  add(energy.copies, "copies");
  add(energy.idle, "idle");
  return card("energy", to_text(energy.all()), more);
}

Bytes moved_by(const Simulation& simulation, const MovedKind& kind) {
  Bytes moved;
  for (const RankResult& rank : simulation.ranks) moved += rank.*kind.size;
  return moved;
}

Bytes moved_by(const Simulation& simulation) {
  Bytes moved;
  for (const MovedKind& kind : kKinds) moved += moved_by(simulation, kind);
  return moved;
}

std::vector<MovedKind> moved_kinds(const Timelines& timelines) {
  std::vector<MovedKind> kinds;
  for (const MovedKind& kind : kKinds) {
    const auto moves = [&](const Simulation* one) {
      return one != nullptr && moved_by(*one, kind) > Bytes(0);
    };
    if (moves(timelines.predicted) || moves(timelines.measured)) kinds.push_back(kind);
  }
  return kinds;
}

Seconds other_time(const RankResult& rank) {
  return std::max(Seconds(0), rank.end - rank.busy - rank.wait_for_ranks - rank.wait_for_copies);
}

Seconds copies_of(const Simulation& simulation) {
  Seconds copies;
  for (const RankResult& rank : simulation.ranks) copies += rank.copies_out + rank.copies_in;
  return copies;
}

std::string overlap_text(const Simulation& simulation) {
  Seconds waited;
  for (const RankResult& rank : simulation.ranks) waited += rank.wait_for_copies;
  return percent_text(std::max(0.0, 1 - waited / copies_of(simulation)));
}

std::vector<std::string> rank_row(std::string_view what, const RankResult& rank, Bytes budget) {
  return {std::string(what),
          to_text(rank.peak.size),
          budget > Bytes(0) ? percent_text(rank.peak.size / budget) : "",
          time_text(rank.busy),
          time_text(rank.recompute),
          time_text(rank.wait_for_ranks),
          time_text(rank.wait_for_copies),
          time_text(rank.copies_out),
          time_text(rank.copies_in)};
}

}  // namespace
}  // namespace trireme::report
