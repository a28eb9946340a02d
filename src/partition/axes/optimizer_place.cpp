// SPDX-License-Identifier: Apache-2.0
#include "optimizer_place.h"

#include "judge/judge.h"
#include "memory/state_away.h"
#include "memory/streamed_layers.h"
#include "stage/stage_policy.h"
#include "values/effort.h"
#include "widest_gap.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/partition/tried.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace trireme::partition {
namespace {

/// Plans that are made between none of the state away and all of it, fewer of large questions; and
/// the least difference of copies that is looked at, of a step.
constexpr int kLooks = 6, kLooksAtLarge = 2;
constexpr double kFinest = 0.005;
constexpr const char* kOnDevice = "optimizer state on the device";

/// What each rank has left of its budget. Where values are on their way out, room is time: such a
/// rank has none. Of the bytes for streamed weights none are left, even if a step never needs all:
/// validation holds other layers together.
std::vector<Bytes> room_of(const Question& question, const plan::Plan& plan) {
  std::vector<Bytes> room(question.platform.ranks.size());
  for (const plan::StagePlan& stage : plan.stages)
    room[static_cast<std::size_t>(stage.rank)] =
        stage.budget == Bytes(0) ? kUnlimited : stage.budget - stage.predicted.peak;
  const std::vector<std::vector<int>> streamed = plan::streamed_layers(plan);
  for (std::size_t rank = 0; rank < streamed.size(); ++rank)
    room[rank] -= plan::streamed_weights(plan, question.chain, static_cast<int>(rank)) -
                  saved_bytes(question.chain, streamed[rank], plan.weights_at_once);
  for (const plan::StagePlan& stage : plan.stages)
    if (stage.predicted.offloaded > Bytes(0)) room[static_cast<std::size_t>(stage.rank)] = Bytes(0);
  return room;
}

/// Plans by how long their copies take.
class StateSearch {
 public:
  StateSearch(const Question& question, const Planner& plan) : question_(question), plan_(plan) {}

  Answer best();

 private:
  struct Looked : Look {
    Seconds copies;  ///< that the plan has; that it might have had where there is none
  };
  /// At the best plan with copies of at most `time`.
  const Looked& look(Seconds time);
  /// Whether no plan with copies can be faster than the one without, or hardly.
  bool is_enough(const plan::Plan* resident) const;
  /// At plans beside the fastest, as long as the gaps there are worth it.
  void refine();
  /// Of those looked at; the first one is that with all of the state on the device.
  Answer fastest() const;

  Question question_;
  const Planner& plan_;
  std::vector<Looked> looked_;
};

const StateSearch::Looked& StateSearch::look(Seconds time) {
  question_.optimizer_copies = time;
  Looked& now = looked_.emplace_back(Looked{{plan_(question_)}, time});
  if (auto* const plan = std::get_if<plan::Plan>(&now.answer)) {
    if (time > Seconds(0)) *plan = with_room_used(question_, std::move(*plan));
    now.copies = copies_of(question_, *plan);
  }
  return now;
}

Answer StateSearch::best() {
  if (!is_enough(look(Seconds(0)).plan()) && look(kAnyTime).plan() != nullptr) refine();
  return fastest();
}

// Of several ranks that keep everything, less memory may still ask for another cut.
bool StateSearch::is_enough(const plan::Plan* resident) const {
  if (resident == nullptr) return false;
  if (question_.stages == 1) return keeps_everything(*resident);
  return resident->step <= unlimited_step(question_, plan_) * kNearIdeal;
}

void StateSearch::refine() {
  for (int k = 0; k < (is_large(question_) ? kLooksAtLarge : kLooks); ++k) {
    std::vector<LookedAt> steps;
    for (const Looked& one : looked_) steps.push_back({one.copies.count(), one.step()});
    const auto fastest = fastest_of(looked_);
    const auto middle = middle_beside_fastest(std::move(steps), fastest->step().count() * kFinest);
    if (!middle) return;
    look(Seconds(*middle));
  }
}

Answer StateSearch::fastest() const {
  const auto best = fastest_of(looked_);
  const Looked &resident = looked_.front(), &all_away = looked_.back();
  // Of plans that lack something, the one that has most of the state away lacks least.
  if (best->plan() == nullptr) return all_away.answer;
  plan::Plan chosen = *best->plan();
  if (best->copies == Seconds(0)) return chosen;
  chosen.alternatives.push_back(as_alternative(kOnDevice, resident.answer));
  return chosen;
}

Question with_host(Question question, Bytes host) {
  for (chain::RankSpec& rank : question.platform.ranks) rank.host = std::max(rank.host, host);
  return question;
}

/// Of the rank with most: state and weights that are in its outer tier all the time.
Bytes most_away(const chain::Chain& chain, const plan::Plan& plan) {
  const std::vector<Bytes> state = plan::optimizer_away(plan);
  Bytes most;
  for (std::size_t rank = 0; rank < state.size(); ++rank)
    most = std::max(most, chain::state_room(chain, kUnlimited, state[rank]) +
                              plan::streamed_weights(plan, chain, static_cast<int>(rank)));
  return most;
}

/// Amounts of host memory that a plan may do with, ascending; the last one holds all that it moves.
std::vector<Bytes> outer_sizes(const Question& question, const plan::Plan& plan) {
  const simulate::Simulation simulation = simulated(question, plan, simulate::Detail::kFigures);
  Bytes all;
  for (const simulate::RankResult& rank : simulation.ranks) all = std::max(all, rank.outer.all());
  std::vector<Bytes> sizes;
  for (const Bytes size : {most_away(question.chain, with_room_used(question, plan)),
                           most_away(question.chain, plan), all})
    if (sizes.empty() || with_margin(size) > sizes.back()) sizes.push_back(with_margin(size));
  return sizes;
}

/// What a plan has in the outer tier: "weights with their gradients and the optimizer's state".
std::string outer_text(const chain::Chain& chain, const plan::Plan& plan) {
  const std::vector<Bytes> state = plan::optimizer_away(plan);
  const auto has_some = [](Bytes bytes) { return bytes > Bytes(0); };
  std::vector<std::string> parts;
  const std::vector<chain::OuterWeights> streamed = plan::streamed_weights(plan, chain);
  const auto is_trained = [](const chain::OuterWeights& one) { return one.is_trained; };
  if (!streamed.empty())
    parts.emplace_back(std::any_of(streamed.begin(), streamed.end(), is_trained)
                           ? "weights with their gradients"
                           : "frozen weights");
  if (std::any_of(state.begin(), state.end(), has_some))
    parts.emplace_back("the optimizer's state");
  if (std::any_of(plan.stages.begin(), plan.stages.end(),
                  [&](const plan::StagePlan& one) { return has_some(one.predicted.offloaded); }))
    parts.emplace_back("activations");
  return enumerated(parts);
}

/// For a question that nothing answers.
std::optional<plan::Advice> advice(Question question, const Planner& plan) {
  const Bytes state = chain::optimizer_bytes(question.chain, 1, question.chain.length());
  if (state == Bytes(0)) return std::nullopt;
  question.optimizer_copies = kAnyTime;
  assume_lanes(question);
  return host_advice(question, with_margin(state), plan);
}

}  // namespace

Seconds copies_of(const Question& question, const plan::Plan& plan) {
  const std::vector<Bytes> away = plan::optimizer_away(plan);
  Seconds longest;
  for (std::size_t rank = 0; rank < away.size(); ++rank)
    if (away[rank] > Bytes(0))
      longest = std::max(longest, away[rank] / copy_rate(question.platform.ranks[rank]));
  return longest;
}

plan::Plan with_room_used(const Question& question, plan::Plan plan) {
  std::vector<Bytes> room = room_of(question, plan), back(room.size());
  for (plan::StagePlan& stage : plan.stages) {
    const auto rank = static_cast<std::size_t>(stage.rank);
    const Bytes some = std::clamp(room[rank], Bytes(0), stage.optimizer_away);
    stage.optimizer_away -= some;
    stage.static_bytes += some;
    room[rank] -= some;
    back[rank] += some;
  }
  for (plan::StagePlan& stage : plan.stages)
    stage.predicted.peak += back[static_cast<std::size_t>(stage.rank)];
  const simulate::Simulation simulation = simulated(question, plan, simulate::Detail::kFigures);
  plan.step = simulation.step;
  plan.bubble = simulation.bubble;
  return plan;
}

Seconds unlimited_step(Question question, const Planner& plan) {
  question.optimizer_copies = Seconds(0);
  question.group = 1;
  for (chain::RankSpec& rank : question.platform.ranks) rank.memory = Bytes(0);
  if (question.solver == "auto") question.solver = "keep_all";  // nothing has to be run again
  const Answer answer = plan(question);
  const auto* const found = std::get_if<plan::Plan>(&answer);
  return found == nullptr ? Seconds(0) : found->step;
}

std::optional<plan::Advice> host_advice(const Question& question, Bytes host, const Planner& plan) {
  const Question generous = with_host(question, host);
  const Answer answer = plan(generous);
  const auto* const found = std::get_if<plan::Plan>(&answer);
  if (found == nullptr) return std::nullopt;
  Bytes enough = host;
  for (const Bytes size : outer_sizes(generous, *found)) {
    if (size >= host || std::holds_alternative<plan::Infeasible>(plan(with_host(question, size))))
      continue;
    enough = size;
    break;
  }
  return plan::Advice{plan::Advice::Kind::kHostMemory,
                      concat(to_text(enough), " (", enough.count(), " bytes) of host memory for ",
                             outer_text(question.chain, *found))};
}

void assume_lanes(Question& question) {
  for (chain::RankSpec& rank : question.platform.ranks)
    if (rank.out == BytesPerSecond(0) && rank.in == BytesPerSecond(0))
      rank.out = rank.in = BytesPerSecond(1e9);
}

bool has_host_advice(const plan::Infeasible& infeasible) {
  return std::any_of(
      infeasible.advice.begin(), infeasible.advice.end(),
      [](const plan::Advice& one) { return one.kind == plan::Advice::Kind::kHostMemory; });
}

Answer with_best_copies(const Question& question, const Planner& plan) {
  Question asked = question;
  asked.optimizer_copies = Seconds(0);
  Answer answer = some_can_move_state(question) ? StateSearch(question, plan).best() : plan(asked);
  if (auto* const infeasible = std::get_if<plan::Infeasible>(&answer))
    if (auto host = advice(asked, plan)) infeasible->advice.push_back(*std::move(host));
  return answer;
}

}  // namespace trireme::partition
