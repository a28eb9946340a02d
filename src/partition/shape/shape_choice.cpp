// Choice of the shape: all are planned quickly, in parallel, and those near the fastest thoroughly.
// SPDX-License-Identifier: Apache-2.0
#include "stage/solver_store.h"
#include "stage/stage_policy.h"
#include "values/parallel_for.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/partition/planner.h"
#include "trireme/partition/shape.h"
#include "trireme/partition/tried.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace trireme::partition {
namespace {

/// Quick plans are rarely further from thorough ones.
constexpr double kNearFastest = 1.1;

/// Lower bound on the step: ranks do all the work, and a micro-batch is in one layer at a time.
Seconds shortest_step(Question question) {
  const Seconds of_all = ideal_step(question);
  std::vector<chain::RankSpec>& ranks = question.platform.ranks;
  std::iter_swap(ranks.begin(),
                 std::max_element(ranks.begin(), ranks.end(),
                                  [](const auto& a, const auto& b) { return a.speed < b.speed; }));
  question.stages = question.micro_batches = 1;
  return std::max(of_all, ideal_step(question));
}

/// The shapes by ascending lower bound, with the planner's answers.
class Choice {
 public:
  explicit Choice(const ShapeQuestion& question);
  ShapeAnswer best();

 private:
  using Indices = std::vector<std::size_t>;

  enum class Care { kQuick, kThorough };

  /// Plans these shapes in parallel, in order; with kQuick only those that may still be the
  /// fastest.
  void look(const Indices& shapes, Care care);
  TriedShape planned(TriedShape tried, Care care) const;
  bool may_be_fastest(const TriedShape& tried) const { return tried.least < fastest_; }
  /// Drops answers that sequential planning would have skipped, so that the number of threads does
  /// not change the result.
  void forget_late_ones();
  /// Quickly planned shapes near the fastest, fastest first; all of them where none has a plan.
  Indices to_look_at_again() const;

  const ShapeQuestion& question_;
  std::map<int, chain::Chain> chains_;  ///< by micro-batch size
  std::shared_ptr<SolverStore> solvers_ = std::make_shared<SolverStore>();
  ShapeAnswer answer_;
  Seconds fastest_{std::numeric_limits<double>::infinity()};
  std::mutex mutex_;  ///< guards answer_ and fastest_
};

Choice::Choice(const ShapeQuestion& question) : question_(question) {
  for (const Shape& shape : shapes_of(question)) {
    const auto [entry, is_new] = chains_.try_emplace(shape.micro_batch);
    if (is_new) entry->second = question.chain_at(shape.micro_batch);
    if (shape.stages > entry->second.length()) continue;
    TriedShape tried{.shape = shape, .answer = {}};
    tried.least = shortest_step(question_of(question, shape, entry->second)) +
                  least_reduce_time(question, shape, entry->second);
    answer_.tried.push_back(std::move(tried));
  }
  if (answer_.tried.empty())
    throw InputError(concat("stages: no number up to the chain's layers makes ", question.ranks,
                            " ranks with the values that are fixed"));
  std::stable_sort(answer_.tried.begin(), answer_.tried.end(),
                   [](const TriedShape& a, const TriedShape& b) { return a.least < b.least; });
}

ShapeAnswer Choice::best() {
  std::vector<TriedShape>& tried = answer_.tried;
  Indices all(tried.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  look(all, all.size() > 1 ? Care::kQuick : Care::kThorough);
  forget_late_ones();
  look(to_look_at_again(), Care::kThorough);
  const auto is_refused = [](const TriedShape& one) { return !one.refused.empty(); };
  if (std::all_of(tried.begin(), tried.end(), is_refused)) throw InputError(tried.front().refused);
  for (std::size_t i = 0; i < tried.size(); ++i) {
    if (tried[i].plan() != nullptr &&
        (!answer_.chosen || tried[i].step() < tried[*answer_.chosen].step()))
      answer_.chosen = i;
  }
  return std::move(answer_);
}

void Choice::look(const Indices& shapes, Care care) {
  parallel_for(shapes.size(), [&](std::size_t k) {
    TriedShape& tried = answer_.tried[shapes[k]];
    std::unique_lock lock(mutex_);
    if (care == Care::kQuick && !may_be_fastest(tried)) return;
    lock.unlock();
    TriedShape made = planned(tried, care);
    lock.lock();
    const bool had_better =
        tried.plan() != nullptr && (made.plan() == nullptr || tried.step() < made.step());
    if (!had_better) tried = std::move(made);
    tried.is_quick = tried.is_quick && care == Care::kQuick;
    if (tried.plan() != nullptr) fastest_ = std::min(fastest_, tried.step());
  });
}

TriedShape Choice::planned(TriedShape tried, Care care) const {
  const chain::Chain& chain = chains_.at(tried.shape.micro_batch);
  Question asked = question_of(question_, tried.shape, chain);
  asked.solvers = solvers_;
  tried.is_quick = false;
  const Tried found = try_to(question_.common.solver, [&] {
    std::optional<Answer> quick;
    if (care == Care::kQuick) quick = quick_plan(asked);
    tried.is_quick = quick.has_value();
    return quick ? *std::move(quick) : partition::plan(asked);
  });
  tried.refused = found.refused;
  if (found.infeasible() != nullptr) tried.answer = *found.infeasible();
  if (found.plan() != nullptr) {
    tried.answer = *found.plan();
    tried.reduce = reduce_time(question_, tried.shape, chain, *found.plan());
  }
  return tried;
}

void Choice::forget_late_ones() {
  fastest_ = Seconds(std::numeric_limits<double>::infinity());
  for (TriedShape& tried : answer_.tried) {
    if (!may_be_fastest(tried)) {
      tried.answer.reset();
      tried.refused.clear();
      tried.is_quick = false;
    }
    if (tried.plan() != nullptr) fastest_ = std::min(fastest_, tried.step());
  }
}

auto Choice::to_look_at_again() const -> Indices {
  const bool has_plan = fastest_ < Seconds(std::numeric_limits<double>::infinity());
  const std::vector<TriedShape>& tried = answer_.tried;
  Indices again;
  for (std::size_t i = 0; i < tried.size(); ++i) {
    if (!tried[i].is_quick) continue;
    if (!has_plan || (tried[i].plan() != nullptr && tried[i].step() <= fastest_ * kNearFastest))
      again.push_back(i);
  }
  if (has_plan)
    std::stable_sort(again.begin(), again.end(), [&](std::size_t a, std::size_t b) {
      return tried[a].step() < tried[b].step();
    });
  return again;
}

}  // namespace

ShapeAnswer choose_shape(const ShapeQuestion& question) {
  return Choice(question).best();
}

std::size_t leanest(const ShapeAnswer& answer) {
  const auto lacks = [&](const TriedShape& tried) {
    if (!tried.answer) return kUnlimited;
    const auto& why = std::get<plan::Infeasible>(*tried.answer);
    return why.needed - why.available;
  };
  const auto best = std::min_element(
      answer.tried.begin(), answer.tried.end(),
      [&](const TriedShape& a, const TriedShape& b) { return lacks(a) < lacks(b); });
  return static_cast<std::size_t>(best - answer.tried.begin());
}

}  // namespace trireme::partition
