// The text at the end of a run.
// SPDX-License-Identifier: Apache-2.0
#include "numbers.h"

#include "trireme/core/text.h"
#include "trireme/record/summary.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace trireme::record {
namespace {

using Facts = std::vector<std::pair<std::string, std::string>>;

std::string line(std::string_view label, std::string_view text);
/// Note on a summary's train loss: ", of the last step", ", mean of the last 10 steps".
std::string train_loss_note(std::int64_t steps);
/// Steps, size, losses, speed.
Facts run_facts(const RunSummary& summary);
/// "1,839,360, 24,576 of them trained".
std::string parameters(const RunSummary& summary);
/// "1,839,360".
std::string in_thousands(std::int64_t number);
/// Number of steps, and their time since the last start.
std::string steps(const RunSummary& summary);
void add_losses(Facts& facts, const RunSummary& summary);
/// "2.3553", "not finite".
std::string loss_text(double loss);
std::string throughput(const RunSummary& summary);
/// Joules of a step and of an example, measured and predicted; empty where neither is known.
std::string energy(const RunSummary& summary);
/// Budget, predicted and allocated bytes of every rank.
std::string memory_table(const RunSummary& summary);
/// "1-2", "1-2 5-6", "-" for none.
std::string layers_of(const PlannedRank& planned);
/// Predicted and measured time of every rank, and its breakdown.
std::string time_table(const RunSummary& summary);
/// Whether updates take enough of some rank's step for a column.
bool shows_updates(const RunSummary& summary);
/// Lines on streamed weights and offloaded optimizer state; empty if there are none.
std::string moved_state(const RunSummary& summary);
/// What GPUs hold in addition to the tensors; empty for CPUs.
std::string reserves(const RunSummary& summary);
std::vector<std::string> time_row(const RankSummary& rank, const RunSummary& summary,
                                  bool with_updates);
/// "+1.5 %": how much more than was predicted; "-" where that is nothing.
template <class Unit>
std::string excess(Unit measured, Unit predicted);
/// "0" without a unit for zero.
std::string time_text(Seconds time);
std::string percent(double share);

}  // namespace

std::string closing_text(const RunSummary& summary) {
  std::string text;
  for (const auto& [what, value] : run_facts(summary)) text += line(what, value);
  if (!summary.ranks.empty())
    text += concat("\n", memory_table(summary), "\n", time_table(summary), moved_state(summary),
                   reserves(summary));
  return text + concat("\nparameters digest: ", summary.parameters_digest,
                       "\nlosses digest: ", summary.losses_digest, "\n");
}

Facts facts_of(const RunSummary& summary) {
  Facts facts = run_facts(summary);
  if (summary.end.ending != Ending::kCompleted) return facts;
  facts.emplace_back("parameters digest", summary.parameters_digest);
  facts.emplace_back("losses digest", summary.losses_digest);
  return facts;
}

std::string prediction_note(const RunSummary& summary, const std::string& command) {
  constexpr double kFar = 0.2;
  const Seconds predicted = summary.predicted_step.value_or(Seconds(0));
  if (!summary.has_earlier_costs || predicted <= Seconds(0) || summary.step <= Seconds(0))
    return "";
  const double more = summary.step / predicted - 1;
  if (std::abs(more) <= kFar) return "";
  return concat("the median step took ", fixed(100 * std::abs(more), 1), " % ",
                more > 0 ? "longer" : "less time", " than predicted (", to_text(summary.step),
                ", predicted ", to_text(predicted),
                "), from layers that were measured earlier: measure again with ", command);
}

namespace {

Facts run_facts(const RunSummary& summary) {
  Facts facts{{"steps", steps(summary)}};
  if (summary.resumed_after > 0)
    facts.emplace_back("resumed from", concat("step ", summary.resumed_after));
  facts.emplace_back("parameters", parameters(summary));
  add_losses(facts, summary);
  if (summary.steps == summary.resumed_after) return facts;
  facts.emplace_back("throughput", throughput(summary));
  if (const auto share = bubble(summary))
    facts.emplace_back("bubble", concat(percent(*share), " of the ranks' time in the median step"));
  if (const std::string joules = energy(summary); !joules.empty())
    facts.emplace_back("energy", joules);
  return facts;
}

std::string parameters(const RunSummary& summary) {
  const std::string all = in_thousands(summary.parameters.all);
  return summary.parameters.trained == summary.parameters.all
             ? concat(all, ", all of them trained")
             : concat(all, ", ", in_thousands(summary.parameters.trained), " of them trained");
}

std::string in_thousands(std::int64_t number) {
  std::string text = concat(number);
  for (std::size_t place = text.size(); place > 3; place -= 3) text.insert(place - 3, 1, ',');
  return text;
}

std::string train_loss_note(std::int64_t steps) {
  return steps == 1 ? ", of the last step" : concat(", mean of the last ", steps, " steps");
}

std::string line(std::string_view label, std::string_view text) {
  constexpr std::size_t kLabelWidth = 18;
  std::string padded(label);
  padded.resize(kLabelWidth, ' ');
  return concat(padded, text, "\n");
}

std::string steps(const RunSummary& summary) {
  if (summary.steps == summary.resumed_after)
    return summary.steps == 0 ? "none was finished"
                              : concat(summary.steps, ", all of them before this start");
  const std::string time =
      concat(" in ", to_text(summary.total), ", the first after ", to_text(summary.to_first_step));
  if (summary.resumed_after == 0) return concat(summary.steps, time);
  return concat(summary.steps, ", ", summary.steps - summary.resumed_after, " of them", time);
}

void add_losses(Facts& facts, const RunSummary& summary) {
  if (summary.train_loss_steps > 0)
    facts.emplace_back("train loss", concat(loss_text(summary.train_loss),
                                            train_loss_note(summary.train_loss_steps)));
  if (summary.validation_loss)
    facts.emplace_back("validation loss", loss_text(*summary.validation_loss));
  if (!summary.unigram_entropy) return;
  std::string unigram = fixed(*summary.unigram_entropy, 4) + ", of the validation part";
  if (summary.unigram_cross_entropy)
    unigram +=
        concat("; ", fixed(*summary.unigram_cross_entropy, 4), " by the train part's counts");
  facts.emplace_back("unigram entropy", unigram);
}

std::string loss_text(double loss) {
  return std::isfinite(loss) ? fixed(loss, 4) : "not finite";
}

std::string throughput(const RunSummary& summary) {
  std::string text = concat(speed(summary.tokens_per_s), " ", summary.unit, "/s, a step in ",
                            to_text(summary.step));
  if (summary.predicted_step) {
    text += concat(", predicted ", to_text(*summary.predicted_step), " (",
                   excess(summary.step, *summary.predicted_step), ")");
  }
  return text;
}

std::string energy(const RunSummary& summary) {
  const std::optional<Joules> measured = measured_energy(summary);
  const std::optional<Joules>& predicted = summary.predicted_energy;
  if (!measured && !predicted) return "";
  const Joules known = measured ? *measured : *predicted;
  std::string text =
      concat(measured ? "" : "predicted ", to_text(known), " a step, ",
             to_text(known / static_cast<double>(std::max(std::int64_t{1}, summary.examples))),
             " an example");
  if (!measured) return concat(text, "; not measured: no meter can be read");
  if (predicted)
    text += concat("; predicted ", to_text(*predicted), " a step (", excess(*measured, *predicted),
                   ")");
  return concat(text, "; by ", summary.meter, ", which counts all programs");
}

std::string memory_table(const RunSummary& summary) {
  std::vector<std::vector<std::string>> rows = {{"rank", "layers", "budget", "predicted", "peak",
                                                 "deviation", "static", "reserved", "process"}};
  for (const RankSummary& rank : summary.ranks) {
    const PlannedRank& planned = planned_for(rank, summary);
    const auto& predicted = planned.predicted;
    rows.push_back(
        {concat(rank.rank), layers_of(planned),
         rank.budget == Bytes(0) ? "-" : to_text(rank.budget),
         predicted ? to_text(predicted->peak) : "-", to_text(rank.peak),
         predicted ? excess(rank.peak, predicted->peak) : "-", to_text(rank.static_bytes),
         rank.reserves ? to_text(rank.reserves->allocator) : "-", to_text(rank.process)});
  }
  return table(rows);
}

std::string layers_of(const PlannedRank& planned) {
  std::string text;
  for (const auto& [first, last] : planned.layers)
    text += concat(text.empty() ? "" : " ", first, "-", last);
  return text.empty() ? "-" : text;
}

std::string time_table(const RunSummary& summary) {
  const bool with_updates = shows_updates(summary);
  std::vector<std::vector<std::string>> rows = {
      {"rank", "predicted", "step", "forward", "backward", "recompute"}};
  if (with_updates) rows.front().emplace_back("update");
  for (const char* const head : {"copies", "overlap", "wait", "busy"})
    rows.front().emplace_back(head);
  for (const RankSummary& rank : summary.ranks)
    rows.push_back(time_row(rank, summary, with_updates));
  return table(rows);
}

bool shows_updates(const RunSummary& summary) {
  constexpr double kNoticeable = 0.01;
  return std::any_of(summary.ranks.begin(), summary.ranks.end(), [&](const RankSummary& rank) {
    return rank.times.update > kNoticeable * summary.step;
  });
}

std::string moved_state(const RunSummary& summary) {
  std::string text;
  for (const RankSummary& rank : summary.ranks) {
    if (rank.offloaded_weights > Bytes(0))
      text += concat("rank ", rank.rank, ": ", to_text(rank.offloaded_weights),
                     " of streamed weights in the offload tier\n");
    if (rank.offloaded_optimizer == Bytes(0)) continue;
    text += concat("rank ", rank.rank, ": ", to_text(rank.offloaded_optimizer),
                   " of optimizer state in the offload tier, updates take ",
                   to_text(rank.times.update + rank.times.update_wait), " a step, ",
                   time_text(rank.times.update_wait), " of it waiting for copies\n");
  }
  return text.empty() ? text : "\n" + text;
}

std::string reserves(const RunSummary& summary) {
  std::string text;
  for (const RankSummary& rank : summary.ranks) {
    if (!rank.reserves) continue;
    const DeviceReserves& reserves = *rank.reserves;
    text += concat("rank ", rank.rank, " also: ", to_text(reserves.workspaces),
                   " of workspaces (of reserved), ", to_text(reserves.others),
                   " outside the allocator (contexts, NCCL, others)",
                   reserves.gathered > 0
                       ? concat("; it waited for the device ", reserves.gathered,
                                " times to free memory: a little more budget may be faster")
                       : "",
                   "\n");
  }
  return text.empty() ? text : "\n" + text;
}

std::vector<std::string> time_row(const RankSummary& rank, const RunSummary& summary,
                                  bool with_updates) {
  const StepTimes& times = rank.times;
  const auto& predicted = planned_for(rank, summary).predicted;
  std::vector<std::string> row{
      concat(rank.rank),         predicted ? to_text(predicted->step) : "-",
      time_text(summary.step),   time_text(times.forward),
      time_text(times.backward), time_text(times.recompute)};
  if (with_updates) row.push_back(time_text(times.update));
  const std::optional<double> overlap = copy_overlap(times);
  row.push_back(time_text(times.copy));
  row.push_back(overlap ? percent(*overlap) : "-");
  row.push_back(time_text(times.wait + times.copy_wait));
  row.push_back(summary.step > Seconds(0) ? percent(times.busy() / summary.step) : "-");
  return row;
}

template <class Unit>
std::string excess(Unit measured, Unit predicted) {
  if (predicted <= Unit(0)) return "-";
  const double share = 100 * (measured / predicted - 1);
  const std::string text = fixed(share, 1);
  return concat(text == "-0.0" ? "0.0" : share < 0 ? text : "+" + text, " %");
}

std::string time_text(Seconds time) {
  return time == Seconds(0) ? "0" : to_text(time);
}

std::string percent(double share) {
  return fixed(100 * share, 1) + " %";
}

}  // namespace
}  // namespace trireme::record
