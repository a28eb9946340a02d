// SPDX-License-Identifier: Apache-2.0
#include "weights_place.h"

#include "judge/judge.h"
#include "memory/state_away.h"
#include "optimizer_place.h"
#include "values/effort.h"
#include "widest_gap.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/partition/tried.h"
#include "trireme/program/groups.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

namespace trireme::partition {
namespace {

/// Plans that are made between none of the layers streamed and all of them, with two layers on the
/// device at a time and then with more; fewer for large questions, and none where all of them are
/// slower than none.
constexpr int kLooks = 5, kLooksAtMore = 3, kLooksAtLarge = 2;
constexpr int kMoreAtOnce = 3;
constexpr const char* kOnDevice = "weights on the device";

/// Whether nothing is run twice and nothing is away, on a rank alone: of several, less memory may
/// still ask for another cut.
bool has_no_price(const plan::Plan& plan) {
  return keeps_everything(plan) && plan::ranks_of(plan) == 1 && !has_state_away(plan);
}

/// Plans by how many layers are streamed.
class WeightsSearch {
 public:
  WeightsSearch(const Question& question, const Planner& plan)
      : question_(question),
        optimizer_(question.optimizer_copies),
        all_(static_cast<int>(all_to_stream(question.chain).size())),
        ideal_(ideal_step(question)),
        plan_(plan) {}

  Answer best();

 private:
  struct Looked : Look {
    int layers, at_once;
    std::optional<Seconds> optimizer;  ///< as in the question
  };
  const Looked& look(int layers);
  /// At plans beside the fastest one with as many layers at a time, and the state where it is, as
  /// now.
  void refine(int looks);
  /// The same with more of them, which all of them away leave less memory for.
  void look_at_more();
  const Looked& fastest() const;
  /// Of the plan that streams nothing, whether its state is where it is beside streamed weights.
  bool is_beside_streams(const Looked& resident) const;
  bool is_near_ideal() const { return fastest().step() <= ideal_ * kNearIdeal; }
  /// Most layers whose copies take less than that.
  int most_within(Seconds step) const;
  /// With all of the optimiser's state away where that is faster.
  Answer settled(const Looked& best);

  Question question_;
  std::optional<Seconds> optimizer_;
  int all_;  ///< most layers that are worth a look
  Seconds ideal_;
  const Planner& plan_;
  std::vector<Looked> looked_;
};

/// Less than what the longest copies in of a rank take in a step that streams these layers: every
/// group of micro-batches brings their weights twice and, but for the first, their gradients,
/// without those that are there where the order turns. The longest takes no less than the mean.
Seconds least_copies(const Question& question, const std::vector<int>& layers) {
  double weights = 0, gradients = 0, largest = 0, rate = 0;
  for (const int layer : layers) {
    const chain::OuterWeights& one = question.chain.layer(layer).may_leave();
    weights += static_cast<double>(one.weights.count());
    gradients += static_cast<double>(one.gradients.count());
    largest = std::max(largest, static_cast<double>(one.all().count()));
  }
  const double stay = 2 * question.stages * kMoreAtOnce;
  for (int k = 0; k < question.stages; ++k)
    rate += question.platform.ranks[static_cast<std::size_t>(k)].in.count();
  const int uses = program::groups_of(question.micro_batches, question.group.value());
  const double bytes = uses * (2 * weights + gradients - stay * largest);
  return Seconds(std::max(0.0, bytes - gradients) / rate);
}

int WeightsSearch::most_within(Seconds step) const {
  int fits = 0, too_many = all_ + 1;
  while (too_many - fits > 1) {
    const int middle = fits + (too_many - fits) / 2;
    const std::vector<int> layers = layers_to_stream(question_.chain, middle);
    (least_copies(question_, layers) < step ? fits : too_many) = middle;
  }
  return fits;
}

const WeightsSearch::Looked& WeightsSearch::look(int layers) {
  question_.streamed = layers_to_stream(question_.chain, layers);
  Question asked = question_;
  if (layers == 0) asked.group = 1;  // groups are for what comes for every use
  return looked_.emplace_back(
      Looked{{plan_(asked)}, layers, *question_.weights_at_once, question_.optimizer_copies});
}

Answer WeightsSearch::best() {
  const bool may_be_more = !question_.weights_at_once;
  question_.weights_at_once = question_.weights_at_once.value_or(program::kLeastAtOnce);
  const plan::Plan* const resident = look(0).plan();
  if (resident != nullptr) {
    if (has_no_price(*resident) || is_near_ideal()) return *resident;
    ideal_ = std::max(ideal_, unlimited_step(question_, plan_));
    all_ = most_within(looked_.front().step());
    if (all_ == 0 || is_near_ideal()) return looked_.front().answer;
  }
  // Beside weights that are streamed, the place of the optimiser's state is chosen last.
  question_.optimizer_copies = optimizer_.value_or(Seconds(0));
  if (look(all_).plan() == nullptr && !optimizer_) {
    question_.optimizer_copies = kAnyTime;
    looked_.pop_back();
    look(all_);
  }
  const bool is_hopeful = !is_large(question_) || fastest().layers > 0;
  if (looked_.back().plan() != nullptr && is_hopeful)
    refine(is_large(question_) ? kLooksAtLarge : kLooks);
  if (may_be_more && !is_large(question_) && fastest().plan() != nullptr && !is_near_ideal())
    look_at_more();
  return settled(fastest());
}

void WeightsSearch::look_at_more() {
  const int best = fastest().layers;
  if (best == 0) return;
  question_.weights_at_once = kMoreAtOnce;
  look(all_);
  if (best != all_) look(best);
  refine(kLooksAtMore);
}

void WeightsSearch::refine(int looks) {
  for (int k = 0; k < looks && !is_near_ideal(); ++k) {
    std::vector<LookedAt> steps;
    for (const Looked& one : looked_) {
      if (one.layers == 0)
        steps.push_back({0, is_beside_streams(one) ? one.step() : kAnyTime});
      else if (one.optimizer == question_.optimizer_copies &&
               one.at_once == *question_.weights_at_once)
        steps.push_back({double(one.layers), one.step()});
    }
    const auto middle = middle_beside_fastest(std::move(steps), 2);
    if (!middle) return;
    look(static_cast<int>(std::ceil(*middle)));
  }
}

bool WeightsSearch::is_beside_streams(const Looked& resident) const {
  if (optimizer_ || resident.plan() == nullptr) return true;
  return has_state_away(*resident.plan()) == (question_.optimizer_copies != Seconds(0));
}

const WeightsSearch::Looked& WeightsSearch::fastest() const {
  const auto best = fastest_of(looked_);
  if (best->plan() != nullptr) return *best;
  // Of plans that lack something, the one that streams most lacks least.
  return *std::max_element(looked_.begin(), looked_.end(),
                           [](const Looked& a, const Looked& b) { return a.layers < b.layers; });
}

Answer WeightsSearch::settled(const Looked& best) {
  Answer answer = best.answer;
  const bool may_move = !optimizer_ && has_no_copies(question_);
  if (may_move && best.plan() != nullptr && !is_near_ideal()) {
    Seconds least = best.step();
    question_.optimizer_copies = kAnyTime;
    std::set<std::pair<int, int>> places{{best.layers, best.at_once}};
    if (!is_large(question_)) places.insert({{all_, best.at_once}, {all_, looked_.back().at_once}});
    for (const auto& [layers, at_once] : places) {
      if (layers == 0) continue;
      question_.streamed = layers_to_stream(question_.chain, layers);
      question_.weights_at_once = at_once;
      Answer other = plan_(question_);
      auto* const away = std::get_if<plan::Plan>(&other);
      if (away == nullptr) continue;
      *away = with_room_used(question_, std::move(*away));
      if (away->step >= least) continue;
      least = away->step;
      answer = std::move(other);
    }
  }
  auto* const chosen = std::get_if<plan::Plan>(&answer);
  if (chosen == nullptr || plan::streamed_weights(*chosen, question_.chain).empty()) return answer;
  chosen->alternatives.push_back(as_alternative(kOnDevice, looked_.front().answer));
  return answer;
}

/// For a question that nothing answers.
std::optional<plan::Advice> advice(Question question, const Planner& plan) {
  question.streamed = all_to_stream(question.chain);
  question.weights_at_once = program::kLeastAtOnce;
  const Bytes all = with_margin(streamed_bytes(question, *question.streamed).outside +
                                chain::optimizer_bytes(question.chain, 1, question.chain.length()));
  assume_lanes(question);
  const bool may_move = question.optimizer_copies != Seconds(0);
  question.optimizer_copies = Seconds(0);
  auto alone = host_advice(question, all, plan);
  if (alone || !may_move) return alone;
  question.optimizer_copies = kAnyTime;
  return host_advice(question, all, plan);
}

}  // namespace

Answer with_best_at_once(Question question, const Planner& plan) {
  question.weights_at_once = program::kLeastAtOnce;
  Answer few = plan(question);
  const auto* const with_few = std::get_if<plan::Plan>(&few);
  if (with_few == nullptr || plan::streamed_weights(*with_few, question.chain).empty()) return few;
  question.weights_at_once = kMoreAtOnce;
  Answer more = plan(question);
  const auto* const with_more = std::get_if<plan::Plan>(&more);
  const bool is_better = with_more != nullptr && with_more->step < with_few->step &&
                         !plan::streamed_weights(*with_more, question.chain).empty();
  return is_better ? more : few;
}

Answer with_best_streams(const Question& question, const Planner& plan) {
  Question asked = question;
  asked.streamed = std::vector<int>{};
  asked.weights_at_once = program::kLeastAtOnce;
  const bool may_stream = !all_to_stream(question.chain).empty();
  Answer answer =
      may_stream && some_can_stream(question) ? WeightsSearch(question, plan).best() : plan(asked);
  auto* const infeasible = std::get_if<plan::Infeasible>(&answer);
  // State alone that would do is less than weights, and has been advised.
  if (infeasible != nullptr && may_stream && !has_host_advice(*infeasible))
    if (auto host = advice(question, plan)) infeasible->advice.push_back(*std::move(host));
  return answer;
}

}  // namespace trireme::partition
