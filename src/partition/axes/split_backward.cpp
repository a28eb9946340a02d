// SPDX-License-Identifier: Apache-2.0
#include "split_backward.h"

#include "axis.h"
#include "judge/judge.h"
#include "solvers.h"

#include "trireme/schedule/named.h"
#include "trireme/schedule/slots.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

namespace trireme::partition {
namespace {

/// Split backwards must shorten the step to at most this share.
constexpr double kLeastGain = 0.998;
/// Shares of a stage's deferrable passes that room is made for: all, and (at least) one pass.
constexpr std::array kRooms{1.0, 0.0};
/// Layers x micro-batches above which a step takes long to plan and to simulate.
constexpr int kMostPasses = 10'000;
bool has_many_passes(const Question& question) {
  return question.chain.length() * question.micro_batches > kMostPasses;
}

bool has_parts(const chain::LayerCost& layer) {
  return layer.in_parts().weights > Seconds(0);
}

bool may_split(const Question& question) {
  const std::vector<chain::LayerCost>& layers = question.chain.layers;
  return question.splits_backward && question.stages > 1 && !has_named_schedule(question) &&
         std::any_of(layers.begin(), layers.end(), has_parts);
}

/// Not for plans that recompute without a budget: whoever asks for that wants the memory.
bool may_split(const Question& question, const plan::Plan& plan) {
  const auto is_unlimited = [](const chain::RankSpec& rank) { return rank.memory == Bytes(0); };
  const auto& ranks = question.platform.ranks;
  if (plan.recompute > Seconds(0) && std::any_of(ranks.begin(), ranks.end(), is_unlimited))
    return false;
  return plan.group == 1 && std::cmp_equal(plan::ranks_of(plan), plan.stages.size());
}

/// Pending bytes that one pass of the stage holds until its weight gradients are computed.
Bytes pending_of(const chain::Chain& chain, const program::StageProgram& stage) {
  Bytes sum;
  for (int i = stage.first_layer; i <= stage.last_layer; ++i)
    sum += chain.layer(i).in_parts().pending;
  return sum;
}

/// Whether the stage's backwards may be split. No rank waits for the first stage; streamed weights
/// would be copied once more for the second part.
bool can_split(const chain::Chain& chain, const plan::StagePlan& stage) {
  const auto layers = chain.layers.begin();
  return stage.program.first_layer > 1 && stage.streamed.empty() &&
         std::any_of(layers + stage.program.first_layer - 1, layers + stage.program.last_layer,
                     has_parts);
}

/// A plan with one stage on every rank whose weight gradients are deferred.
class Deferring {
 public:
  /// Defers those of every stage by as many passes as possible.
  Deferring(const chain::Chain& chain, plan::Plan plan)
      : plan_(std::move(plan)), in_flight_(plan::in_flight(plan_)), passes_(plan_.stages.size()) {
    for (std::size_t k = 0; k < passes_.size(); ++k)
      if (can_split(chain, plan_.stages[k]))
        passes_[k] = std::min(static_cast<int>(k), plan_.micro_batches - 1);
    set_order();
  }

  const plan::Plan& plan() const { return plan_; }
  /// Number of passes by which stage k defers them; nothing: its backwards are whole.
  std::optional<int> passes(std::size_t k) const { return passes_[k]; }
  void defer(std::size_t k, std::optional<int> passes) {
    passes_[k] = passes;
    set_order();
  }

 private:
  void set_order() {
    plan::set_order(plan_, schedule::on_ranks(
                               schedule::one_f_one_b_with(in_flight_, plan_.micro_batches, passes_),
                               plan::placement(plan_)));
  }

  plan::Plan plan_;
  std::vector<int> in_flight_;
  std::vector<std::optional<int>> passes_;
};

struct Outcome {
  Seconds step;
  std::vector<Bytes> over;  ///< by how much each rank is over its budget

  bool fits() const {
    return std::all_of(over.begin(), over.end(), [](Bytes one) { return one == Bytes(0); });
  }
};
Outcome outcome_of(const Question& question, const plan::Plan& plan) {
  const simulate::Simulation simulation = simulated(question, plan, simulate::Detail::kFigures);
  return {.step = simulation.step, .over = excess(question, simulation)};
}

/// Defers by fewer passes on ranks over their budget until all fit. Returns whether one was over.
bool defer_fewer(const Question& question, Deferring& deferring) {
  bool was_over = false;
  for (bool is_over = true; std::exchange(is_over, false);) {
    const std::vector<Bytes> over = outcome_of(question, deferring.plan()).over;
    for (std::size_t k = 0; k < deferring.plan().stages.size(); ++k) {
      const plan::StagePlan& stage = deferring.plan().stages[k];
      const Bytes more = over[static_cast<std::size_t>(stage.rank)];
      const std::optional<int> passes = deferring.passes(k);
      if (more == Bytes(0) || !passes) continue;
      const Bytes pass = std::max(pending_of(question.chain, stage.program), Bytes(1));
      const auto fewer = std::max<Bytes::rep>(1, more.count() / pass.count());
      deferring.defer(
          k, fewer > *passes ? std::nullopt : std::optional(*passes - static_cast<int>(fewer)));
      is_over = was_over = true;
    }
  }
  return was_over;
}

/// Local search: one pass more or fewer on one stage as long as the step gets shorter, since stages
/// differ.
void improve(const Question& question, Deferring& deferring) {
  if (has_many_passes(question)) return;
  Seconds best = outcome_of(question, deferring.plan()).step;
  const auto is_better = [&](std::size_t k, int other) {
    const std::optional<int> before = deferring.passes(k);
    deferring.defer(k, other < 0 ? std::nullopt : std::optional(other));
    const Outcome outcome = outcome_of(question, deferring.plan());
    if (outcome.fits() && outcome.step < best) {
      best = outcome.step;
      return true;
    }
    deferring.defer(k, before);
    return false;
  };
  for (bool goes_on = true; std::exchange(goes_on, false);) {
    for (std::size_t k = deferring.plan().stages.size(); k-- > 0;) {
      if (!can_split(question.chain, deferring.plan().stages[k])) continue;
      const int number = deferring.passes(k).value_or(-1);
      const bool is_less = number >= 0 && is_better(k, number - 1);
      const bool is_more =
          !is_less && number + 1 < deferring.plan().micro_batches && is_better(k, number + 1);
      goes_on = goes_on || is_less || is_more;
    }
  }
}

std::optional<plan::Plan> faster_than(const Question& question, Seconds step, plan::Plan plan) {
  if (!plan::has_split_backward(plan)) return std::nullopt;
  auto fits = on_budgets(question, std::move(plan));
  return fits && fits->step < step * kLeastGain ? std::move(fits) : std::nullopt;
}

/// By rank, the (negative) change of memory that leaves room for this share of each stage's
/// deferrable passes, at least one.
std::vector<Bytes> room_left(const Question& question, plan::Plan plan, double share) {
  const Deferring deferring(question.chain, std::move(plan));
  std::vector<Bytes> more(question.platform.ranks.size());
  for (std::size_t k = 0; k < deferring.plan().stages.size(); ++k) {
    const plan::StagePlan& stage = deferring.plan().stages[k];
    const auto rank = static_cast<std::size_t>(stage.rank);
    const std::optional<int> most = deferring.passes(k);
    if (question.platform.ranks[rank].memory == Bytes(0) || !most) continue;
    const double passes = std::max(1.0, share * (*most + 1));
    const double waiting =
        passes * static_cast<double>(pending_of(question.chain, stage.program).count());
    more[rank] -= Bytes(static_cast<Bytes::rep>(waiting));
  }
  return more;
}

/// Compute time of the busiest rank in a step, a lower bound in any order of passes; 0 where copies
/// may make them wait.
Seconds busiest(const plan::Plan& plan) {
  std::vector<Seconds> busy(static_cast<std::size_t>(plan::ranks_of(plan)));
  for (const plan::StagePlan& stage : plan.stages) {
    if (stage.predicted.offloaded > Bytes(0)) return Seconds(0);
    busy[static_cast<std::size_t>(stage.rank)] +=
        (stage.predicted.forward + stage.predicted.backward) * plan.micro_batches;
  }
  return *std::max_element(busy.begin(), busy.end());
}

/// Bound by the plan with whole backwards, from which the split one is made.
Seconds bound(const Problem&, const Log& log, const Choices& choices) {
  if (!choices.splits_backward) return Seconds(0);
  const Judged* const whole = log.find(with_whole_backwards(choices));
  return whole == nullptr || whole->plan() == nullptr ? Seconds(0) : busiest(*whole->plan());
}

/// Where tapes fill the memory, a plan that leaves some for pending values may be faster.
std::vector<Choices> moves(const Scene& scene) {
  const Question& question = scene.question;
  const plan::Plan* const plan = scene.best.plan();
  if (plan == nullptr || plan->group > 1) return {};
  Choices split = scene.best.choices;
  split.splits_backward = true;
  // Where ranks have several stages: the best plan with one stage per rank.
  if (!may_split(question, *plan)) split.solver = quick_solver(question);
  const Judged* const judged = scene.log.find(split);
  if (judged == nullptr) return {split};
  if (!judged->lacks_memory_to_delay) return {};
  std::vector<Choices> roomy;
  for (const double share : kRooms) {
    roomy.push_back(split);
    roomy.back().solver = quick_solver(question);
    roomy.back().more = room_left(question, *judged->plan(), share);
    if (kOptimizerState.is_open(question)) {  // offloading it may make that room
      roomy.push_back(roomy.back());
      roomy.back().optimizer_copies = kAnyTime;
    }
    if (has_many_passes(question) || question.quick) break;
  }
  return roomy;
}

}  // namespace

std::optional<Delayed> with_weights_delayed(const Question& question, const plan::Plan& whole) {
  if (!may_split(question) || !may_split(question, whole)) return std::nullopt;
  Deferring deferring(question.chain, whole);
  const bool lacks_memory = defer_fewer(question, deferring);
  improve(question, deferring);
  return Delayed{.plan = faster_than(question, whole.step, deferring.plan()),
                 .lacks_memory = lacks_memory};
}

const Axis kSplitBackward{
    .name = "split backward",
    .without = "whole backwards",
    .is_open = [](const Question& question) { return may_split(question); },
    .moves = moves,
    .bound = bound,
    .is_used =
        [](const Judged& judged) {
          return judged.plan() != nullptr && plan::has_split_backward(*judged.plan());
        },
    .most_looks = 2,
    .most_looks_at_large = 2,
    .least_gain = 1 / kLeastGain - 1,
    .reason = "deferred gradients take memory that a run may need if its times differ",
    .beats_ideal = true};

}  // namespace trireme::partition
