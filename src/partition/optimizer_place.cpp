// SPDX-License-Identifier: Apache-2.0
#include "optimizer_place.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace trireme::partition {
namespace {

/// Plans that are made between none of the state away and all of it; and the least difference of
/// copies that is looked at, of a step.
constexpr int kLooks = 6;
constexpr double kFinest = 0.005;
constexpr const char* kOnDevice = "optimizer state on the device";

BytesPerSecond copy_rate(const chain::RankSpec& rank) {
  return std::min(rank.out, rank.in);
}

bool has_lanes(const Question& question) {
  const auto end = question.platform.ranks.begin() + question.stages;
  return std::any_of(question.platform.ranks.begin(), end, [](const chain::RankSpec& rank) {
    return copy_rate(rank) > BytesPerSecond(0) && rank.host + rank.disk > Bytes(0);
  });
}

bool keeps_everything(const plan::Plan& plan) {
  return plan.recompute == Seconds(0) &&
         std::none_of(plan.stages.begin(), plan.stages.end(), [](const plan::StagePlan& stage) {
           return stage.predicted.offloaded > Bytes(0);
         });
}

/// Room in an outer tier of which so much of the state may take: pieces are rounded up.
Bytes with_margin(Bytes away) {
  return away + away / 15 + Bytes(16);
}

/// By rank.
std::vector<Bytes> away_of(const Question& question, const plan::Plan& plan) {
  std::vector<Bytes> away(question.platform.ranks.size());
  for (const plan::StagePlan& stage : plan.stages)
    away[static_cast<std::size_t>(stage.rank)] += stage.optimizer_away;
  return away;
}

/// Of the rank that takes longest.
Seconds copies_of(const Question& question, const plan::Plan& plan) {
  const std::vector<Bytes> away = away_of(question, plan);
  Seconds longest;
  for (std::size_t rank = 0; rank < away.size(); ++rank)
    if (away[rank] > Bytes(0))
      longest = std::max(longest, away[rank] / copy_rate(question.platform.ranks[rank]));
  return longest;
}

/// The plan with so much of the state back on the device as its ranks have room for. Where values
/// are on their way out, room is time: such a rank keeps what it has.
plan::Plan with_room_used(const Question& question, plan::Plan plan) {
  const std::vector<Bytes> away = away_of(question, plan);
  std::vector<Bytes> left(away.size());
  for (const plan::StagePlan& stage : plan.stages) {
    Bytes& room = left[static_cast<std::size_t>(stage.rank)];
    room = stage.predicted.offloaded > Bytes(0) ? Bytes(0) : stage.budget - stage.predicted.peak;
  }
  for (plan::StagePlan& stage : plan.stages)
    if (stage.predicted.offloaded > Bytes(0)) left[static_cast<std::size_t>(stage.rank)] = Bytes(0);
  std::vector<Bytes> back(away.size());
  for (plan::StagePlan& stage : plan.stages) {
    const auto rank = static_cast<std::size_t>(stage.rank);
    const Bytes some = std::clamp(left[rank] - back[rank], Bytes(0), stage.optimizer_away);
    stage.optimizer_away -= some;
    stage.static_bytes += some;
    back[rank] += some;
  }
  for (plan::StagePlan& stage : plan.stages)
    stage.predicted.peak += back[static_cast<std::size_t>(stage.rank)];
  const simulate::Simulation simulation = simulated(question, plan, simulate::Detail::kSummary);
  plan.step = simulation.step;
  plan.bubble = simulation.bubble;
  return plan;
}

/// Plans by how long their copies may take.
class Search {
 public:
  Search(const Question& question, const std::function<Answer(const Question&)>& plan)
      : question_(question), plan_(plan) {}

  Answer best();

 private:
  /// Plans with copies of at most `time`. Whether there is such a plan.
  bool look(Seconds time);
  /// Looks at plans between those with no copies and with the longest that pay.
  void refine();
  Answer fastest();

  Question question_;
  const std::function<Answer(const Question&)>& plan_;
  std::map<Seconds, Answer> found_;
};

bool Search::look(Seconds time) {
  question_.optimizer_copies = time;
  Answer answer = plan_(question_);
  if (auto* const plan = std::get_if<plan::Plan>(&answer); plan != nullptr && time > Seconds(0))
    *plan = with_room_used(question_, std::move(*plan));
  const auto& kept = found_.insert_or_assign(time, std::move(answer)).first->second;
  return std::holds_alternative<plan::Plan>(kept);
}

Answer Search::best() {
  look(Seconds(0));
  const auto* const resident = std::get_if<plan::Plan>(&found_.at(Seconds(0)));
  const bool is_enough = resident != nullptr && keeps_everything(*resident);
  if (!is_enough && look(kAnyTime)) refine();
  return fastest();
}

void Search::refine() {
  // The plan without a limit, which found_ has as one with the copies that it has.
  auto whole = found_.extract(kAnyTime);
  const auto& limit = std::get<plan::Plan>(whole.mapped());
  const Seconds most = copies_of(question_, limit);
  if (most == Seconds(0)) {
    found_.insert_or_assign(Seconds(0), std::move(whole.mapped()));
    return;
  }
  whole.key() = most;
  found_.insert(std::move(whole));
  const auto step = [](const Answer& answer) {
    const auto* const plan = std::get_if<plan::Plan>(&answer);
    return plan == nullptr ? kAnyTime : plan->step;
  };
  for (int k = 0; k < kLooks; ++k) {
    const auto best = std::min_element(
        found_.begin(), found_.end(),
        [&](const auto& a, const auto& b) { return step(a.second) < step(b.second); });
    const Seconds below =
        best == found_.begin() ? Seconds(0) : best->first - std::prev(best)->first;
    const Seconds above =
        std::next(best) == found_.end() ? Seconds(0) : std::next(best)->first - best->first;
    const Seconds gap = std::max(below, above);
    if (gap < step(best->second) * kFinest) return;
    look(best->first + (above > below ? above : -below) / 2);
  }
}

Answer Search::fastest() {
  const Answer resident = found_.at(Seconds(0));
  const plan::Plan* best = nullptr;
  for (const auto& [time, answer] : found_) {
    const auto* const plan = std::get_if<plan::Plan>(&answer);
    if (plan != nullptr && (best == nullptr || plan->step < best->step)) best = plan;
  }
  // Of those that lack something, the one that has most of the state away lacks least.
  if (best == nullptr) return found_.rbegin()->second;
  plan::Plan chosen = *best;
  if (copies_of(question_, chosen) == Seconds(0)) return chosen;
  plan::Alternative other{.policy = kOnDevice, .step = {}, .infeasible = {}};
  if (const auto* const plan = std::get_if<plan::Plan>(&resident))
    other.step = plan->step;
  else
    other.infeasible = std::get<plan::Infeasible>(resident);
  chosen.alternatives.push_back(std::move(other));
  return chosen;
}

/// "; it would fit with so much host memory"; empty where that would not be enough.
std::string advice(Question question, const std::function<Answer(const Question&)>& plan) {
  Bytes state;
  for (const chain::LayerCost& layer : question.chain.layers) state += layer.optimizer;
  question.optimizer_copies = kAnyTime;
  for (chain::RankSpec& rank : question.platform.ranks) {
    rank.host = std::max(rank.host, with_margin(state));
    if (copy_rate(rank) == BytesPerSecond(0)) rank.out = rank.in = BytesPerSecond(1e9);
  }
  const Answer answer = plan(question);
  const auto* const found = std::get_if<plan::Plan>(&answer);
  if (found == nullptr) return "";
  Bytes most;
  for (const Bytes away : away_of(question, with_room_used(question, *found)))
    most = std::max(most, with_margin(away));
  return concat("; it would fit with ", to_text(most), " (", most.count(),
                " bytes) of host memory for the optimizer's state");
}

}  // namespace

std::optional<Seconds> optimizer_copies_of(const std::string& place) {
  if (place == "auto") return std::nullopt;
  ensure(place == "device" || place == "outer", concat("'", place, "' is a place of the state"));
  return place == "outer" ? kAnyTime : Seconds(0);
}

bool has_no_copies(const Question& question) {
  return question.optimizer_copies.value_or(Seconds(0)) == Seconds(0);
}

Bytes optimizer_away(const Question& question, int rank, const LayerRuns& runs) {
  if (has_no_copies(question) || runs.empty()) return Bytes(0);
  Bytes state;
  for (const auto& [first, last] : runs)
    for (int i = first; i <= last; ++i) state += question.chain.layer(i).optimizer;
  if (question.shared_bytes) state -= question.shared_bytes(runs).optimizer;
  return optimizer_away(question, rank, state);
}

Bytes optimizer_away(const Question& question, int rank, Bytes state) {
  const chain::RankSpec& spec = question.platform.ranks[static_cast<std::size_t>(rank)];
  if (has_no_copies(question) || copy_rate(spec) == BytesPerSecond(0)) return Bytes(0);
  // As with_margin() has it.
  const Bytes most = std::min(state, (spec.host + spec.disk) / 16 * 15);
  const double by_time = question.optimizer_copies->count() * copy_rate(spec).count();
  return by_time < static_cast<double>(most.count()) ? Bytes(static_cast<std::int64_t>(by_time))
                                                     : most;
}

Bytes outer_room(const chain::RankSpec& rank, Bytes away) {
  return std::max(Bytes(0), rank.host + rank.disk - away - away / 64);
}

Answer with_best_copies(const Question& question,
                        const std::function<Answer(const Question&)>& plan) {
  Question asked = question;
  asked.optimizer_copies = Seconds(0);
  Answer answer = has_lanes(question) ? Search(question, plan).best() : plan(asked);
  if (auto* const infeasible = std::get_if<plan::Infeasible>(&answer))
    infeasible->where += advice(asked, plan);
  return answer;
}

}  // namespace trireme::partition
