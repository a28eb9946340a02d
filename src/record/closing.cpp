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
Facts run_facts(const Summary& summary);
/// "1,839,360, 24,576 of them trained".
std::string parameters(const Summary& summary);
/// "1,839,360".
std::string in_thousands(std::int64_t number);
/// Number of steps, and their time since the last start.
std::string steps(const Summary& summary);
void add_losses(Facts& facts, const Summary& summary);
/// "2.3553", "not finite".
std::string loss_text(double loss);
std::string throughput(const Summary& summary);
/// Budget, predicted and allocated bytes of every rank.
std::string memory_table(const Summary& summary);
/// "1-2", "1-2 5-6".
std::string layers_of(const RankSummary& rank);
/// Predicted and measured time of every rank, and its breakdown.
std::string time_table(const Summary& summary);
/// Whether updates take enough of some rank's step for a column.
bool shows_updates(const Summary& summary);
/// Lines on streamed weights and offloaded optimizer state; empty if there are none.
std::string moved_state(const Summary& summary);
/// What GPUs hold in addition to the tensors; empty for CPUs.
std::string reserves(const Summary& summary);
std::vector<std::string> time_row(const RankSummary& rank, const Summary& summary,
                                  bool with_updates);
template <class Unit>
std::string text_or_dash(const std::optional<Unit>& value);
/// "+1.5 %": how much more than was predicted; "-" without a prediction.
template <class Unit>
std::string excess(Unit measured, const std::optional<Unit>& predicted);
/// "0" without a unit for zero.
std::string time_text(Seconds time);
std::string percent(double share);

}  // namespace

std::string closing_text(const Summary& summary) {
  std::string text;
  for (const auto& [what, value] : run_facts(summary)) text += line(what, value);
  if (!summary.ranks.empty())
    text += concat("\n", memory_table(summary), "\n", time_table(summary), moved_state(summary),
                   reserves(summary));
  return text + concat("\nparameters digest: ", summary.parameters_digest,
                       "\nlosses digest: ", summary.losses_digest, "\n");
}

Facts facts_of(const Summary& summary) {
  Facts facts = run_facts(summary);
  if (summary.end.ending != Ending::kCompleted) return facts;
  facts.emplace_back("parameters digest", summary.parameters_digest);
  facts.emplace_back("losses digest", summary.losses_digest);
  return facts;
}

std::string prediction_note(const Summary& summary, const std::string& command) {
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

Facts run_facts(const Summary& summary) {
  Facts facts{{"steps", steps(summary)}};
  if (summary.resumed_after > 0)
    facts.emplace_back("resumed from", concat("step ", summary.resumed_after));
  facts.emplace_back("parameters", parameters(summary));
  add_losses(facts, summary);
  if (summary.steps == summary.resumed_after) return facts;
  facts.emplace_back("throughput", throughput(summary));
  if (summary.end.ending == Ending::kCompleted)
    facts.emplace_back("bubble",
                       concat(percent(summary.bubble), " of the ranks' time in the median step"));
  return facts;
}

std::string parameters(const Summary& summary) {
  const std::string all = in_thousands(summary.parameters);
  return summary.trained_parameters == summary.parameters
             ? concat(all, ", all of them trained")
             : concat(all, ", ", in_thousands(summary.trained_parameters), " of them trained");
}

std::string in_thousands(std::int64_t number) {
  std::string text = concat(number);
  for (std::size_t place = text.size(); place > 3; place -= 3) text.insert(place - 3, ",");
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

std::string steps(const Summary& summary) {
  if (summary.steps == summary.resumed_after)
    return summary.steps == 0 ? "none was finished"
                              : concat(summary.steps, ", all of them before this start");
  const std::string time =
      concat(" in ", to_text(summary.total), ", the first after ", to_text(summary.to_first_step));
  if (summary.resumed_after == 0) return concat(summary.steps, time);
  return concat(summary.steps, ", ", summary.steps - summary.resumed_after, " of them", time);
}

void add_losses(Facts& facts, const Summary& summary) {
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

std::string throughput(const Summary& summary) {
  std::string text = concat(speed(summary.tokens_per_s), " ", summary.unit, "/s, a step in ",
                            to_text(summary.step));
  if (summary.predicted_step) {
    text += concat(", predicted ", to_text(*summary.predicted_step), " (",
                   excess(summary.step, summary.predicted_step), ")");
  }
  return text;
}

std::string memory_table(const Summary& summary) {
  std::vector<std::vector<std::string>> rows = {{"rank", "layers", "budget", "predicted", "peak",
                                                 "deviation", "static", "reserved", "process"}};
  for (const RankSummary& rank : summary.ranks) {
    rows.push_back({concat(rank.rank), layers_of(rank),
                    rank.budget == Bytes(0) ? "-" : to_text(rank.budget),
                    text_or_dash(rank.predicted_peak), to_text(rank.peak),
                    excess(rank.peak, rank.predicted_peak), to_text(rank.static_bytes),
                    text_or_dash(rank.reserved), text_or_dash(rank.process)});
  }
  return table(rows);
}

std::string layers_of(const RankSummary& rank) {
  std::string text = concat(rank.first_layer, "-", rank.last_layer);
  for (const auto& [first, last] : rank.further_layers) text += concat(" ", first, "-", last);
  return text;
}

std::string time_table(const Summary& summary) {
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

bool shows_updates(const Summary& summary) {
  constexpr double kNoticeable = 0.01;
  return std::any_of(summary.ranks.begin(), summary.ranks.end(), [&](const RankSummary& rank) {
    return rank.update > kNoticeable * rank.step.value_or(summary.step);
  });
}

std::string moved_state(const Summary& summary) {
  std::string text;
  for (const RankSummary& rank : summary.ranks) {
    if (rank.weights_away > Bytes(0))
      text += concat("rank ", rank.rank, ": ", to_text(rank.weights_away),
                     " of streamed weights in the offload tier\n");
    if (rank.optimizer_away == Bytes(0)) continue;
    text += concat("rank ", rank.rank, ": ", to_text(rank.optimizer_away),
                   " of optimizer state in the offload tier, updates take ",
                   to_text(rank.update + rank.update_wait), " a step, ",
                   time_text(rank.update_wait), " of it waiting for copies\n");
  }
  return text.empty() ? text : "\n" + text;
}

std::string reserves(const Summary& summary) {
  std::string text;
  for (const RankSummary& rank : summary.ranks) {
    if (!rank.workspaces || !rank.outside) continue;
    text += concat("rank ", rank.rank, " also: ", to_text(*rank.workspaces),
                   " of workspaces (of reserved), ", to_text(*rank.outside),
                   " outside the allocator (contexts, NCCL, others)",
                   rank.gathered.value_or(0) > 0
                       ? concat("; it waited for the device ", *rank.gathered,
                                " times to free memory: a little more budget may be faster")
                       : "",
                   "\n");
  }
  return text.empty() ? text : "\n" + text;
}

std::vector<std::string> time_row(const RankSummary& rank, const Summary& summary,
                                  bool with_updates) {
  std::vector<std::string> row{
      concat(rank.rank),
      text_or_dash(rank.predicted_step ? rank.predicted_step : summary.predicted_step),
      time_text(rank.step.value_or(summary.step)),
      time_text(rank.forward),
      time_text(rank.backward),
      time_text(rank.recompute)};
  if (with_updates) row.push_back(time_text(rank.update));
  const std::optional<double> overlap = copy_overlap(rank);
  row.push_back(time_text(rank.copy));
  row.push_back(overlap ? percent(*overlap) : "-");
  row.push_back(time_text(rank.wait + rank.copy_wait));
  row.push_back(summary.step > Seconds(0) ? percent(rank.busy() / summary.step) : "-");
  return row;
}

template <class Unit>
std::string text_or_dash(const std::optional<Unit>& value) {
  return value ? to_text(*value) : "-";
}

template <class Unit>
std::string excess(Unit measured, const std::optional<Unit>& predicted) {
  if (!predicted || *predicted <= Unit(0)) return "-";
  const double share = 100 * (measured / *predicted - 1);
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
