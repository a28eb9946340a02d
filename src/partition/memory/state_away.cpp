// SPDX-License-Identifier: Apache-2.0
#include "state_away.h"

#include "streamed_layers.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <cstdint>

namespace trireme::partition {

BytesPerSecond copy_rate(const chain::RankSpec& rank) {
  return std::min(rank.out, rank.in);
}

bool some_can_move_state(const Question& question) {
  const auto end = question.platform.ranks.begin() + question.stages;
  return std::any_of(question.platform.ranks.begin(), end, can_move_state);
}

bool has_state_away(const plan::Plan& plan) {
  const std::vector<Bytes> away = plan::optimizer_away(plan);
  return std::any_of(away.begin(), away.end(), [](Bytes one) { return one > Bytes(0); });
}

std::optional<Seconds> optimizer_copies_of(const std::string& place) {
  if (place == "auto") return std::nullopt;
  ensure(place == "device" || place == "outer", concat("'", place, "' is a place of the state"));
  return place == "outer" ? kAnyTime : Seconds(0);
}

Bytes with_margin(Bytes away) {
  return away + away / 15 + Bytes(16);
}

bool can_move_state(const chain::RankSpec& rank) {
  return copy_rate(rank) > BytesPerSecond(0) && rank.outer() > Bytes(0);
}

bool has_no_copies(const Question& question) {
  return question.optimizer_copies.value_or(Seconds(0)) == Seconds(0);
}

Bytes optimizer_state(const Question& question, const LayerRuns& runs) {
  Bytes state;
  for (const auto& [first, last] : runs)
    state += chain::optimizer_bytes(question.chain, first, last);
  return question.shared_bytes ? state - question.shared_bytes(runs).optimizer : state;
}

Bytes optimizer_away(const Question& question, int rank, const LayerRuns& runs) {
  if (has_no_copies(question) || runs.empty()) return Bytes(0);
  return optimizer_away(question, rank, optimizer_state(question, runs),
                        streamed_bytes(question, streamed_of(question, rank, runs)).outside);
}

Bytes optimizer_away(const Question& question, int rank, Bytes state, Bytes beside) {
  const chain::RankSpec& spec = question.platform.ranks[static_cast<std::size_t>(rank)];
  if (has_no_copies(question) || copy_rate(spec) == BytesPerSecond(0)) return Bytes(0);
  // As with_margin() has it; and a cut adds less than a line.
  const Bytes whole = std::min(spec.outer() / 16 * 15, spec.outer() - question.chain.state_line);
  const Bytes room = std::max(Bytes(0), whole - beside);
  const Bytes most = std::min(state, room);
  const double by_time = question.optimizer_copies->count() * copy_rate(spec).count();
  return by_time < static_cast<double>(most.count()) ? Bytes(static_cast<std::int64_t>(by_time))
                                                     : most;
}

Bytes outer_room(const chain::RankSpec& rank, Bytes outside) {
  return std::max(Bytes(0), rank.outer() - outside - outside / 64);
}

}  // namespace trireme::partition
