// SPDX-License-Identifier: Apache-2.0
#include "trireme/report/text.h"

#include "trireme/chain/layer_range.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <iterator>

namespace trireme::report {
namespace {

using program::Action;

constexpr std::size_t kWidth = 100;
/// Least length of a folded run of actions.
constexpr std::size_t kWorthFolding = 4;

/// Length of the run from `begin` on of the same op on neighbouring layers, all up or all down.
std::size_t run_length(const std::vector<Action>& actions, std::size_t begin);
/// A line about an overlapped optimizer step; empty where there is none.
std::string updates_text(const plan::Plan& plan);
std::string stage_text(const plan::Plan& plan, std::size_t k, const simulate::RankResult& rank);
std::string listed(std::string_view name, std::string_view text);

}  // namespace

std::string exact_text(Bytes size) {
  const std::string exact = concat(size.count(), " B");
  return size < Bytes(1024) ? exact : concat(exact, " (", to_text(size), ")");
}

std::string least_budget_text(Bytes least, bool is_exact) {
  return concat("the smallest budget that works is ", is_exact ? "" : "at most ",
                exact_text(least));
}

std::string time_text(Seconds time) {
  return time == Seconds(0) ? "0 s" : to_text(time);
}

std::string percent_text(double share) {
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.1f %%", 100 * share);
  return buffer.data();
}

std::string overhead_text(Seconds time, Seconds ideal) {
  if (ideal <= Seconds(0)) return "+0.0 %";
  std::array<char, 48> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%+.1f %%", 100 * (time / ideal - 1));
  return buffer.data();
}

std::string over_ideal_text(Seconds step, Seconds ideal) {
  return concat(overhead_text(step, ideal), " over the ideal ", time_text(ideal),
                " (no waits, no recomputation)");
}

std::string mix_note(const program::Mix& mix, int number) {
  return concat(std::count(mix.cycle.begin(), mix.cycle.end(), number), " of ", mix.cycle.size(),
                " micro-batches in flight run instead:");
}

std::string actions_text(const std::vector<Action>& actions) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < actions.size();) {
    const std::size_t run = run_length(actions, i);
    const std::string_view op = program::name(actions[i].op);
    if (run >= kWorthFolding) {
      parts.push_back(concat(op, " ", range_text(actions[i].layer, actions[i + run - 1].layer)));
      i += run;
    } else {
      parts.push_back(concat(op, " ", actions[i].layer));
      ++i;
    }
  }
  return join(parts, ", ");
}

std::string wrapped(std::string_view text, std::size_t width, std::size_t indent) {
  std::string out;
  while (text.size() > width) {
    std::size_t end = text.rfind(", ", width - 1);
    if (end == std::string_view::npos) end = text.find(", ");
    if (end == std::string_view::npos) break;
    out += concat(text.substr(0, end + 1), "\n", std::string(indent, ' '));
    text.remove_prefix(end + 2);
  }
  return out + std::string(text);
}

/// "4 stages", "4 ranks with 2 chunks each, searched", or "4 ranks with 5 chunks, 1f1b".
std::string chunks_text(const plan::Plan& plan) {
  const std::size_t stages = plan.stages.size();
  const auto ranks = static_cast<std::size_t>(plan::ranks_of(plan));
  if (stages == 1) return "one stage";
  const schedule::Placement placement = plan::placement(plan);
  const bool have_as_many = std::all_of(placement.begin(), placement.end(), [&](int rank) {
    return static_cast<std::size_t>(std::count(placement.begin(), placement.end(), rank)) * ranks ==
           stages;
  });
  if (stages == ranks) return count_of(stages, "stage");
  return concat(
      count_of(ranks, "rank"), " with ",
      have_as_many ? concat(stages / ranks, " chunks each, ") : concat(stages, " chunks, "),
      plan.schedule);
}

std::string passes_text(const plan::Plan& plan) {
  return concat(count_of(plan.micro_batches, "micro-batch"), " per step, ",
                plan.group > 1 ? concat("in groups of ", plan.group, ", ") : "", chunks_text(plan));
}

Seconds ideal_step(const simulate::Simulation& simulation) {
  Seconds work;
  for (const simulate::RankResult& rank : simulation.ranks) work += rank.busy - rank.recompute;
  return simulation.ranks.empty() ? work : work / static_cast<double>(simulation.ranks.size());
}

std::string clocks_text(const plan::StagePlan& stage) {
  const auto shown = [](const std::string& name) { return name.empty() ? "the usual one" : name; };
  return concat(shown(stage.forward_clock), " forward, ", shown(stage.backward_clock), " backward");
}

std::string energy_text(const plan::Plan& plan, const simulate::Simulation& simulation) {
  const simulate::Energy& energy = simulation.energy;
  if (energy.all() == Joules(0)) return "";
  return concat("energy    ", to_text(energy.all()), " per step",
                plan.replicas > 1 ? " and replica: " : ": ", to_text(energy.compute), " compute (",
                to_text(energy.recompute), " recompute), ", to_text(energy.copies), " copies, ",
                to_text(energy.idle), " idle\n");
}

std::vector<std::vector<std::string>> alternative_rows(const plan::Plan& plan) {
  std::vector<std::vector<std::string>> rows{
      {"alternative", "step", "vs this plan", "least budget"}};
  for (const plan::Alternative& other : plan.alternatives) {
    rows.push_back({other.policy, other.step ? time_text(*other.step) : "-",
                    other.step ? overhead_text(*other.step, plan.step) : "",
                    other.infeasible ? exact_text(other.infeasible->least_budget) : ""});
  }
  return rows;
}

std::string plan_text(const plan::Plan& plan, const chain::Chain& chain,
                      const simulate::Simulation& simulation) {
  const Seconds ideal = ideal_step(simulation);
  std::string text = concat("chain     ", chain.name, ": ", count_of(chain.length(), "layer"), ", ",
                            passes_text(plan), "\n");
  text += concat("solver    ", plan.solver, "\n");
  text += concat("time      ", time_text(plan.step), " per step, ",
                 over_ideal_text(plan.step, ideal), "\n");
  if (plan.order_bound > Seconds(0))
    text += plan.order_bound < plan.step * (1 - 1e-6)
                ? concat("order     searched; no order of these passes takes less than ",
                         time_text(plan.order_bound), ", ",
                         percent_text(1 - plan.order_bound / plan.step), " less\n")
                : "order     searched; no order of these passes is faster\n";
  text += concat("recompute ", time_text(plan.recompute), " per step, summed over ranks\n");
  text += energy_text(plan, simulation);
  text += updates_text(plan);
  for (std::size_t k = 0; k < plan.stages.size(); ++k)
    text += stage_text(plan, k, simulation.ranks[static_cast<std::size_t>(plan.stages[k].rank)]);
  if (!plan.alternatives.empty()) text += "\n" + table(alternative_rows(plan));
  return text;
}

namespace {

std::size_t run_length(const std::vector<Action>& actions, std::size_t begin) {
  std::size_t end = begin + 1;
  int step = 0;
  for (; end < actions.size() && actions[end].op == actions[begin].op; ++end) {
    const int next = actions[end].layer - actions[end - 1].layer;
    if (std::abs(next) != 1 || (step != 0 && next != step)) break;
    step = next;
  }
  return end - begin;
}

std::string updates_text(const plan::Plan& plan) {
  if (plan.updates == program::UpdatePlace::kAtEnd) return "";
  std::size_t layers = 0;
  for (const std::vector<int>& of_rank : plan::updated_layers(plan)) layers += of_rank.size();
  std::string text = concat("updates   of ", count_of(layers, "layer"), " overlapped: ",
                            plan.updates == program::UpdatePlace::kInForward
                                ? "before their first forward of the next step"
                                : "after their last backward");
  if (plan.update_window > Bytes(0))
    text += concat(", in a window of ", exact_text(plan.update_window), " for optimizer state");
  return text + "\n";
}

/// Static bytes of all stages of the rank.
Bytes static_bytes_of(const plan::Plan& plan, int rank) {
  Bytes sum;
  for (const plan::StagePlan& stage : plan.stages)
    if (stage.rank == rank) sum += stage.static_bytes;
  return sum;
}

std::string stage_text(const plan::Plan& plan, std::size_t k, const simulate::RankResult& rank) {
  const plan::StagePlan& stage = plan.stages[k];
  const plan::StagePrediction& predicted = stage.predicted;
  const program::StageProgram& program = stage.program;
  const int in_flight = plan::in_flight(plan)[k];
  const std::optional<int> deferred = plan::deferred_passes(plan)[k];
  std::string text;
  const bool has_chunks = schedule::shares_ranks(plan::placement(plan));
  if (in_flight > 1 || plan.stages.size() > 1)
    text += concat("\n", has_chunks ? concat("chunk ", k) : "stage", " on rank ", stage.rank, ": ",
                   layers_text(chain::LayerRange{program.first_layer, program.last_layer}), ", ",
                   in_flight, plan.group > 1 ? concat(" groups of ", plan.group) : "", " in flight",
                   deferred ? ", split backward" : "",
                   deferred.value_or(0) > 0
                       ? concat(", weight gradients deferred by ", count_of(*deferred, "pass"))
                       : "",
                   "\n");
  text += concat("peak      ", exact_text(predicted.peak));
  if (stage.budget > Bytes(0)) {
    text +=
        concat(" of ", exact_text(stage.budget), ", ", percent_text(predicted.peak / stage.budget));
  }
  if (rank.peak.action) text += concat(", at ", program::to_text(*rank.peak.action));
  text += concat("\nstatic    ", exact_text(stage.static_bytes),
                 " of parameters, gradients, optimizer state");
  if (stage.budget > Bytes(0))
    text += concat(has_chunks ? "; the rank's budget less that of all its chunks is "
                              : "; the rest of the budget is ",
                   exact_text(stage.budget - static_bytes_of(plan, stage.rank)));
  if (stage.offloaded_optimizer > Bytes(0))
    text += concat("\noffloaded ", exact_text(stage.offloaded_optimizer),
                   " of optimizer state, copied to the device for its update");
  if (!stage.streamed.empty())
    text += concat("\nstreamed  weights of ", count_of(std::ssize(stage.streamed), "layer"),
                   ", copied to the device for each use of their layer");
  text += concat("\nkept      ", exact_text(predicted.kept), " per micro-batch in flight\n");
  text += concat("moved     ", exact_text(predicted.offloaded),
                 " of activations per micro-batch, to the offload tier\n");
  if (plan::has_clocks(stage)) text += concat("clocks    ", clocks_text(stage), "\n");
  text += listed("forward", actions_text(program.forward));
  text += listed("backward", actions_text(program.backward));
  for (std::size_t i = 0; i < stage.mix.others.size(); ++i) {
    const program::StageProgram& other = stage.mix.others[i];
    text += mix_note(stage.mix, static_cast<int>(i) + 1) + "\n";
    text += listed("forward", actions_text(other.forward));
    text += listed("backward", actions_text(other.backward));
  }
  return text;
}

std::string listed(std::string_view name, std::string_view text) {
  constexpr std::size_t kIndent = 10;
  return concat(name, std::string(kIndent - name.size(), ' '),
                wrapped(text, kWidth - kIndent, kIndent), "\n");
}

}  // namespace
}  // namespace trireme::report
