// The text at the end of a run.
// SPDX-License-Identifier: Apache-2.0
#include "numbers.h"

#include "trireme/core/text.h"
#include "trireme/record/summary.h"

#include <string_view>

namespace trireme::record {
namespace {

std::string line(std::string_view label, std::string_view text);
std::string losses(const Summary& summary);
std::string throughput(const Summary& summary);
std::string rank_table(const Summary& summary);
std::vector<std::string> rank_row(const RankSummary& rank, Seconds step);
/// Zero has no unit worth a digit.
std::string time_text(Seconds time);
std::string percent(double share);

}  // namespace

std::string closing_text(const Summary& summary) {
  std::string text = line("steps", concat(summary.steps, " in ", to_text(summary.total),
                                          ", the first after ", to_text(summary.to_first_step)));
  text += losses(summary);
  text += throughput(summary);
  text += line("bubble", percent(summary.bubble));
  if (!summary.ranks.empty()) text += "\n" + rank_table(summary);
  return text + concat("\nparameters digest: ", summary.parameters_digest,
                       "\nlosses digest: ", summary.losses_digest, "\n");
}

namespace {

std::string line(std::string_view label, std::string_view text) {
  constexpr std::size_t kLabelWidth = 18;
  std::string padded(label);
  padded.resize(kLabelWidth, ' ');
  return concat(padded, text, "\n");
}

std::string losses(const Summary& summary) {
  std::string text = line("train loss", fixed(summary.train_loss, 4));
  if (summary.validation_loss) text += line("validation loss", fixed(*summary.validation_loss, 4));
  if (!summary.unigram_entropy) return text;
  std::string unigram = fixed(*summary.unigram_entropy, 4) + ", of the validation part";
  if (summary.unigram_cross_entropy)
    unigram +=
        concat("; ", fixed(*summary.unigram_cross_entropy, 4), " by the train part's counts");
  return text + line("unigram entropy", unigram);
}

std::string throughput(const Summary& summary) {
  std::string text =
      concat(speed(summary.tokens_per_s), " tokens/s, a step in ", to_text(summary.step));
  if (summary.predicted_step) {
    const double excess = 100 * (summary.step / *summary.predicted_step - 1);
    text += concat(", predicted ", to_text(*summary.predicted_step), " (", excess < 0 ? "" : "+",
                   fixed(excess, 1), " %)");
  }
  return line("throughput", text);
}

std::string rank_table(const Summary& summary) {
  std::vector<std::vector<std::string>> rows = {{"rank", "layers", "budget", "peak", "predicted",
                                                 "static", "forward", "backward", "recompute",
                                                 "copy", "wait", "busy"}};
  for (const RankSummary& rank : summary.ranks) rows.push_back(rank_row(rank, summary.step));
  return table(rows);
}

std::vector<std::string> rank_row(const RankSummary& rank, Seconds step) {
  const Seconds busy = rank.forward + rank.backward + rank.recompute;
  return {concat(rank.rank),
          concat(rank.first_layer, "-", rank.last_layer),
          rank.budget == Bytes(0) ? "-" : to_text(rank.budget),
          to_text(rank.peak),
          rank.predicted_peak ? to_text(*rank.predicted_peak) : "-",
          to_text(rank.static_bytes),
          time_text(rank.forward),
          time_text(rank.backward),
          time_text(rank.recompute),
          time_text(rank.copy),
          time_text(rank.wait),
          step > Seconds(0) ? percent(busy / step) : "-"};
}

std::string time_text(Seconds time) {
  return time == Seconds(0) ? "0" : to_text(time);
}

std::string percent(double share) {
  return fixed(100 * share, 1) + " %";
}

}  // namespace
}  // namespace trireme::record
