// SPDX-License-Identifier: Apache-2.0
#include "search.h"

#include "advice.h"
#include "answer/answers.h"
#include "axes/solvers.h"
#include "axes/split_backward.h"
#include "judge/judge.h"
#include "memory/offload.h"
#include "stage/stage_policy.h"
#include "values/effort.h"
#include "values/parallel_for.h"

#include "trireme/partition/tried.h"
#include "trireme/schedule/named.h"

#include <algorithm>
#include <map>
#include <utility>

namespace trireme::partition {
namespace {

/// Rounds of turns of all axes; after the first, axes search next to the best.
constexpr int kRounds = 3;
/// Corners within this factor of the best are climbed from.
constexpr double kAmongFastest = 1.25;
/// Forwards of layers in a step up to which every named schedule is searched by itself, which takes
/// seconds at most, and up to which those are that are within a factor of the fastest.
constexpr int kFewForwards = 1'000, kManyForwards = 8'000;
constexpr double kAmongNamed = 1.1;

void add_alternative(plan::Alternative other, plan::Plan& plan) {
  const auto is_same = [&](const plan::Alternative& one) { return one.policy == other.policy; };
  if (other.policy != plan.solver &&
      std::none_of(plan.alternatives.begin(), plan.alternatives.end(), is_same))
    plan.alternatives.push_back(std::move(other));
}

}  // namespace

Answer Search::best() {
  for (const std::string& solver : solvers_to_start_with(question_)) {
    best_ = nullptr;
    climb_from(corners(solver));
  }
  best_ = fastest_;
  for (const Axis* const axis : axes().at_last) improve(*axis);
  search_named();
  if (best_->plan() != nullptr) return with_alternatives();
  return with_advice();
}

std::vector<Choices> Search::corners(const std::string& solver) {
  const bool has_choices = has_places(question_);
  Choices plain = plainest(question_);
  if (has_choices || question_.quick) {
    plain = quickly(question_, plain);
    plain.solver = solver;
  }
  if (!plain.streamed.empty()) plain.updates = updates_among_passes(question_);
  judge({plain});
  if (!has_choices || is_near_ideal()) return {};
  std::vector<Choices> corners{plain};
  if (kStreamedWeights.is_open(question_))
    corners.push_back(streaming_most(question_, plain, best_->step()));
  if (!question_.updates && updates_among_passes(question_) != plain.updates) {
    corners.push_back(corners.back());
    corners.back().updates = plain.updates;
  }
  if (kOptimizerState.is_open(question_)) {
    for (std::size_t k = 0, end = corners.size(); k < end; ++k) {
      corners.push_back(corners[k]);
      corners.back().optimizer_copies = kAnyTime;
    }
  }
  judge(corners);
  return corners;
}

// Leaving an axis open must never make the step longer: a search restricted to one kind of offload
// may find more than one with both open. So every corner that is nearly as fast is climbed from,
// without the axes that it does not use.
void Search::climb_from(const std::vector<Choices>& corners) {
  climb();
  if (is_large(question_) || is_near_ideal()) return;
  std::vector<const Judged*> others;
  for (const Choices& one : corners)
    if (const Judged* const judged = log_.find(one); judged != nullptr && !has_faster_twin(*judged))
      others.push_back(judged);
  std::stable_sort(others.begin(), others.end(),
                   [](const Judged* a, const Judged* b) { return a->step() < b->step(); });
  for (const Judged* const other : others) {
    if (other->plan() == nullptr || other->step() > best_->step() * kAmongFastest) break;
    const Judged* const before = std::exchange(best_, other);
    for (const Axis* const axis : {&kStreamedWeights, &kOptimizerState})
      if (!axis->is_used(*other)) closed_.push_back(axis);
    climb();
    closed_.clear();
    if (!is_better(*best_, *before)) best_ = before;
  }
}

bool Search::has_faster_twin(const Judged& one) const {
  Choices other = one.choices;
  if (other.streamed.empty() || question_.updates || question_.chain.length() <= kFewLayers)
    return false;
  other.updates = updates_among_passes(question_);
  const Judged* const twin = log_.find(other);
  return twin != nullptr && is_better(*twin, one);
}

void Search::climb() {
  turns_.clear();
  for (int round = 0; round < kRounds; ++round) {
    bool has_improved = false;
    for (const Axis* const axis : axes().in_turns) {
      if (!axis->beats_ideal && is_near_ideal()) continue;
      has_improved |= improve(*axis);
    }
    if (!has_improved) break;
  }
}

bool Search::improve(const Axis& axis) {
  if (!axis.is_open(question_) || std::find(closed_.begin(), closed_.end(), &axis) != closed_.end())
    return false;
  const Judged* const before = best_;
  const int looks = is_large(question_) ? axis.most_looks_at_large : axis.most_looks;
  int misses = 0;
  for (int look = 0, gains = 0; look < looks && gains <= looks;) {
    const std::size_t judged_before = log_.all().size();
    if (std::cmp_greater_equal(judged_before, question_.decisions)) break;
    if (look + gains > 0 && !axis.beats_ideal && is_near_ideal()) break;
    const Judged* const here = best_;
    std::vector<Choices> moves = axis.moves({.question = question_,
                                             .log = log_,
                                             .best = *best_,
                                             .round = turns_[&axis],
                                             .misses = misses});
    std::erase_if(moves, [&](const Choices& one) { return log_.is_settled(one); });
    if (moves.empty()) break;
    judge(std::move(moves));
    if (log_.all().size() == judged_before) continue;
    const bool is_miss = best_ == here;
    misses += is_miss ? 1 : 0;
    ++(is_miss || is_large(question_) ? look : gains);
  }
  ++turns_[&axis];
  return keep_gain(axis, *before);
}

bool Search::keep_gain(const Axis& axis, const Judged& before) {
  if (best_ == &before) return false;
  if (before.plan() == nullptr || best_->step() * (1 + axis.least_gain) < before.step())
    return true;
  best_ = &before;
  return false;
}

std::vector<std::string> Search::schedules_to_search() const {
  const int forwards = question_.chain.length() * question_.stages * question_.micro_batches;
  std::vector<std::string> names;
  if (forwards <= kFewForwards) {
    for (const schedule::NamedSchedule& named : schedule::named_schedules())
      if (!schedule::has_usual_order(named.name)) names.emplace_back(named.name);
  } else if (forwards <= kManyForwards && has_places(question_)) {  // else there is no offload
    std::map<std::string, Seconds> steps;
    Seconds least = kNever;
    for (const Judged& one : log_.all()) {
      if (one.plan() == nullptr || !kChunks.is_used(one)) continue;
      for (const auto& [name, step] : named_steps(*one.plan())) {
        least = std::min(least, step);
        const auto known = steps.emplace(name, step).first;
        known->second = std::min(known->second, step);
      }
    }
    for (const auto& [name, step] : steps)
      if (step <= least * kAmongNamed) names.push_back(name);
  }
  // Groups of micro-batches, which streamed weights are copied once for, may pay with all of them
  // in flight alone.
  if (forwards <= kManyForwards && kStreamedWeights.is_used(*best_)) names.emplace_back("gpipe");
  return names;
}

void Search::search_named() {
  if (!kChunks.is_open(question_) || best_->plan() == nullptr) return;
  const Judged* const chunked = log_.best_where(kChunks.is_used);
  if (chunked != nullptr && has_no_use_for_memory(question_, *chunked)) return;
  const Judged* const before = best_;
  std::vector<Question> questions;
  for (const std::string& name : schedules_to_search())
    set_schedule(questions.emplace_back(question_), name);
  std::vector<std::optional<Judged>> results(questions.size());
  parallel_for(questions.size(), [&](std::size_t k) {
    Search alone(questions[k], propose_);
    if (try_to("", [&] { return alone.best(); }).plan() != nullptr) results[k] = *alone.best_;
  });
  for (std::optional<Judged>& result : results) {
    if (!result) continue;
    const Judged& found = log_.add(*std::move(result));
    if (is_better(found, *best_)) best_ = &found;
  }
  if (best_ != before) {
    Choices searched = best_->choices;
    searched.chunks = kSearchedChunks;
    judge({std::move(searched)});
  }
}

void Search::judge(std::vector<Choices> choices) {
  std::vector<Choices> whole;  // split plans are made from whole ones
  for (const Choices& one : choices)
    if (one.splits_backward) whole.push_back(with_whole_backwards(one));
  if (!whole.empty()) judge(std::move(whole));
  std::vector<Choices> hopeful;
  for (Choices& one : choices) {
    if (log_.is_settled(one) || std::find(hopeful.begin(), hopeful.end(), one) != hopeful.end())
      continue;
    if (fastest_ != nullptr && bound(one) >= fastest_->step())
      log_.pass_over(std::move(one));
    else
      hopeful.push_back(std::move(one));
  }
  std::vector<std::optional<Judged>> results(hopeful.size());
  parallel_for(hopeful.size(), [&](std::size_t k) { results[k] = judged(hopeful[k]); });
  for (std::optional<Judged>& result : results) {
    const Judged& added = log_.add(*std::move(result));
    if (best_ == nullptr || is_better(added, *best_)) best_ = &added;
    if (fastest_ == nullptr || is_better(added, *fastest_)) fastest_ = &added;
  }
}

Judged Search::judged(const Choices& choices) const {
  if (!choices.splits_backward) return {.choices = choices, .answer = proposed(choices)};
  const Judged* const whole = log_.find(with_whole_backwards(choices));
  Judged result{.choices = choices, .answer = whole != nullptr ? whole->answer : proposed(choices)};
  if (result.plan() == nullptr) return result;
  auto delayed = with_weights_delayed(question_, *result.plan());
  if (!delayed) return result;
  result.lacks_memory_to_delay = delayed->lacks_memory;
  if (delayed->plan) result.answer = *std::move(delayed->plan);
  return result;
}

Answer Search::proposed_in_groups(const Question& asked) const {
  return asked.group.value() == 1 ? propose_(asked) : plan_in_groups(asked, propose_);
}

Answer Search::proposed(const Choices& choices) const {
  const Question asked = settled(question_, choices);
  Answer answer = proposed_in_groups(asked);
  auto* const plan = std::get_if<plan::Plan>(&answer);
  if (plan == nullptr) return answer;
  if (!question_.optimizer_copies && !has_no_copies(asked))
    *plan = with_room_used(asked, std::move(*plan));
  if (choices.more.empty()) return answer;
  std::optional<plan::Plan> fits = on_budgets(asked, *plan);
  if (fits && asked.platform.ranks != question_.platform.ranks)
    fits = on_budgets(question_, *std::move(fits));  // predictions for the real budgets
  if (fits) return *std::move(fits);
  const Bytes needed = plan->stages.front().predicted.peak;
  return plan::Infeasible{.last_layer = question_.chain.length(),
                          .needed = needed,
                          .available = question_.platform.ranks.front().memory,
                          .least_budget = needed,
                          .where = "programs made for more memory"};
}

Seconds Search::bound(const Choices& choices) const {
  Seconds least{0};
  for (const Axis* const axis : axes().all())
    if (axis->bound != nullptr) least = std::max(least, axis->bound(question_, log_, choices));
  return least;
}

bool Search::is_near_ideal() {
  if (best_->plan() == nullptr) return false;
  const plan::Plan& plan = *best_->plan();
  if (plan.step <= ideal_step(question_) * kNearIdeal) return true;
  if (keeps_everything(plan) && plan::ranks_of(plan) == 1 && !has_offloaded_state(plan) &&
      !kStreamedWeights.is_used(*best_))
    return true;
  const Choices& choices = best_->choices;
  return question_.stages > 1 && choices.chunks != kSearchedChunks &&
         plan.step <= unlimited_step(choices.solver, choices.chunks) * kNearIdeal;
}

Seconds Search::unlimited_step(const std::string& solver, const std::string& chunks) {
  const auto known = unlimited_.find({solver, chunks});
  if (known != unlimited_.end()) return known->second;
  Choices rich = quickly(question_, plainest(question_));
  rich.chunks = chunks;
  rich.solver = solver == "auto" ? "keep_all" : solver;  // no recomputation without budgets
  rich.optimizer_copies = Seconds(0);
  rich.streamed.clear();
  rich.group = 1;
  Question asked = settled(question_, rich);
  for (chain::RankSpec& rank : asked.platform.ranks) rank.memory = Bytes(0);
  const Answer answer = propose_(asked);
  const auto* const found = std::get_if<plan::Plan>(&answer);
  return unlimited_[{solver, chunks}] = found == nullptr ? Seconds(0) : found->step;
}

const Judged* Search::without(const Axis& axis) const {
  return log_.best_where(
      [&](const Judged& one) { return !axis.is_used(one) && one.step() >= best_->step(); });
}

plan::Plan Search::with_alternatives() const {
  plan::Plan plan = *best_->plan();
  if (!best_->choices.more.empty()) plan.alternatives.clear();  // which may be over the budgets
  // The answers of the question's own solvers at the best choices that they were run for, with the
  // question's own chunks and with several on every rank.
  for (const std::string& chunks : {plainest(question_).chunks, std::string(kSearchedChunks)}) {
    const Judged* const careful = log_.best_where([&](const Judged& one) {
      return one.choices.solver == question_.solver && one.choices.more.empty() &&
             one.choices.chunks == chunks && one.plan() != nullptr;
    });
    if (careful == nullptr || careful == best_) continue;
    std::vector<plan::Alternative> others = careful->plan()->alternatives;
    const bool is_searched = careful->plan()->schedule == "searched";
    others.push_back(
        as_alternative(is_searched ? "searched" : careful->plan()->solver, careful->answer));
    // Faster ones by less than their axis has to gain were not taken.
    for (plan::Alternative& other : others)
      if (!other.step || *other.step >= plan.step) add_alternative(std::move(other), plan);
  }
  for (const Axis* const axis : axes().all()) {
    if (!axis->is_used(*best_)) continue;
    if (const Judged* const other = without(*axis))
      add_alternative(as_alternative(std::string(axis->without), other->answer), plan);
  }
  return plan;
}

plan::Infeasible Search::with_advice() const {
  plan::Infeasible infeasible = std::get<plan::Infeasible>(best_->answer);
  if (infeasible.reason == plan::Infeasible::Reason::kTurns) return infeasible;
  if (schedule::find_schedule(best_->choices.chunks) != nullptr) {
    infeasible.least_budget =
        budget_that_fits(settled(question_, best_->choices), infeasible.least_budget);
    if (infeasible.needed <= infeasible.available) infeasible.needed = infeasible.least_budget;
  }
  const Planner propose = [this](const Question& asked) { return proposed_in_groups(asked); };
  if (auto host = host_advice_for(question_, propose))
    infeasible.advice.push_back(*std::move(host));
  return infeasible;
}

std::vector<plan::Plan> Search::plans() const {
  std::vector<plan::Plan> plans;
  for (const Judged& one : log_.all())
    if (one.plan() != nullptr) plans.push_back(*one.plan());
  return plans;
}

Reasons Search::reasons() const {
  Reasons reasons{.passed_over = log_.passed_over().size()};
  for (const Judged& one : log_.all())
    reasons.judged.push_back(as_alternative(to_text(one.choices), one.answer));
  for (const Axis* const axis : axes().all()) {
    Reasons::OfAxis row{.name = std::string(axis->name),
                        .is_open = axis->is_open(question_),
                        .is_used = best_->plan() != nullptr && axis->is_used(*best_),
                        .least_gain = axis->least_gain,
                        .reason = std::string(axis->reason)};
    if (const Judged* const other = row.is_used ? without(*axis) : nullptr)
      row.without = as_alternative(std::string(axis->without), other->answer);
    reasons.axes.push_back(std::move(row));
  }
  return reasons;
}

}  // namespace trireme::partition
