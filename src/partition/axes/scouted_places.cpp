// SPDX-License-Identifier: Apache-2.0
#include "scouted_places.h"

#include "idle_memory.h"
#include "memory/state_away.h"
#include "memory/streamed_layers.h"
#include "optimizer_place.h"

#include "trireme/solve/solve.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace trireme::partition {
namespace {

constexpr const char* kScout = "joint";
/// Of searches for copies, where a scout is one.
constexpr double kScoutsBreadth = 0.125;
/// Layers up to which such searches look at all there is in no time.
constexpr int kFewLayers = 32;

bool has_choices(const Question& question) {
  return (some_can_stream(question) || some_can_move_state(question)) &&
         (!question.optimizer_copies || !question.streamed || !question.weights_at_once ||
          !question.group);
}

bool searches_copies(const std::string& solver) {
  const std::optional<solve::Traits> traits = solve::traits_of(solver);
  return solver == "auto" || (traits && traits->moves && traits->growth == solve::Growth::kTables);
}

/// With everything where the plan has it.
Question placed_as(Question question, const plan::Plan& plan) {
  if (!question.optimizer_copies) question.optimizer_copies = copies_of(question, plan);
  if (!question.streamed) question.streamed = streamed_by(plan);
  question.weights_at_once = plan.weights_at_once;
  question.group = plan.group;
  return question;
}

/// Those of `from` whose policy is not among them yet.
void add_alternatives(const std::vector<plan::Alternative>& from, plan::Plan& to) {
  for (const plan::Alternative& other : from) {
    const auto is_same = [&](const plan::Alternative& one) { return one.policy == other.policy; };
    if (other.policy != to.solver &&
        std::none_of(to.alternatives.begin(), to.alternatives.end(), is_same))
      to.alternatives.push_back(other);
  }
}

/// The same with less left open, so that what is left open never costs time: nothing streamed, or
/// no state away, where the plan has that.
std::vector<Question> narrower(const Question& question, const plan::Plan& plan) {
  std::vector<Question> questions;
  if (!question.streamed && !streamed_by(plan).empty()) {
    questions.push_back(question);
    questions.back().streamed.emplace();
    questions.back().group = 1;
  }
  if (!question.optimizer_copies && has_state_away(plan)) {
    questions.push_back(question);
    questions.back().optimizer_copies = Seconds(0);
  }
  return questions;
}

/// Solvers for which state and weights may well be in other places than for the scout; what is away
/// and what is run twice they weigh against each other by other rules. For pipelines of few layers.
std::vector<std::string> with_places_of_their_own(const Question& question) {
  if (question.stages == 1 || question.chain.length() > kFewLayers) return {};
  std::vector<std::string> solvers{"adapipe"};
  if (!question.cut && question.in_flight.empty()) solvers.emplace_back("madpipe");
  return solvers;
}

class Scouted {
 public:
  Scouted(const Planner& search, const Planner& plan) : search_(search), plan_(plan) {}

  /// Nothing where the scout has no plan.
  std::optional<plan::Plan> best(const Question& question) const;

 private:
  /// Of all solvers, with everything where the scout's plan has it.
  std::optional<plan::Plan> of_all(const Question& question, const plan::Plan& scout) const;

  const Planner& search_;
  const Planner& plan_;
};

std::optional<plan::Plan> Scouted::best(const Question& question) const {
  Answer scouted = search_(quicker(question).value());
  auto* const scout = std::get_if<plan::Plan>(&scouted);
  if (scout == nullptr) return std::nullopt;
  const std::vector<Question> others =
      question.stages > 1 ? narrower(question, *scout) : std::vector<Question>{};
  plan::Plan fastest = std::move(*scout);
  const auto take = [&](std::optional<plan::Plan> other) {
    if (!other) return;
    if (other->step < fastest.step) std::swap(fastest, *other);
    add_alternatives(other->alternatives, fastest);
  };
  take(of_all(question, fastest));
  for (const Question& other : others) take(best(other));
  for (const std::string& solver : with_places_of_their_own(question)) {
    Question asked = question;
    asked.solver = solver;
    Answer answer = search_(asked);
    if (auto* const found = std::get_if<plan::Plan>(&answer)) take(std::move(*found));
  }
  return fastest;
}

std::optional<plan::Plan> Scouted::of_all(const Question& question, const plan::Plan& scout) const {
  const Question placed = placed_as(question, scout);
  Answer answer = plan_(placed);
  auto* const found = std::get_if<plan::Plan>(&answer);
  if (found == nullptr) return std::nullopt;
  if (!question.optimizer_copies && !has_no_copies(placed))
    *found = with_room_used(placed, std::move(*found));
  if (found->solver == kScout) return std::move(*found);  // its idle memory the scout has used
  Question asked = question;
  asked.solver = found->solver;
  return std::get<plan::Plan>(with_idle_memory_used(asked, std::move(answer), plan_));
}

}  // namespace

std::optional<Question> quicker(const Question& question) {
  Question asked = question;
  if (question.stages > 1) {
    if (question.solver != "auto") return std::nullopt;
    asked.solver = kScout;
  } else {
    if (question.chain.length() <= kFewLayers || !searches_copies(question.solver))
      return std::nullopt;
    asked.breadth *= kScoutsBreadth;
  }
  return asked;
}

Answer with_scouted_places(const Question& question, const Planner& search, const Planner& plan) {
  std::optional<plan::Plan> best;
  if (has_choices(question) && quicker(question)) best = Scouted(search, plan).best(question);
  return best ? *std::move(best) : search(question);
}

}  // namespace trireme::partition
