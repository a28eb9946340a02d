// SPDX-License-Identifier: Apache-2.0
#include "in_time.h"

#include "trireme/core/text.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

namespace trireme::partition {
namespace {

/// Budgets that are tried for a deadline: the last gap is a two hundredth of the first.
constexpr int kHalvings = 8;

Question with_budgets(Question question, double factor) {
  for (chain::RankSpec& rank : question.platform.ranks)
    rank.memory = Bytes(
        static_cast<std::int64_t>(std::ceil(factor * static_cast<double>(rank.memory.count()))));
  return question;
}

bool is_in_time(const Question& question, Seconds deadline) {
  const Answer answer = plan(question);
  const auto* const found = std::get_if<plan::Plan>(&answer);
  return found != nullptr && found->step <= deadline;
}

/// The factor of all budgets with which a plan without recomputation or copies fits, if a step then
/// ends by the deadline.
std::optional<double> enough(const Question& question, Seconds deadline) {
  Question rich = question;
  for (chain::RankSpec& rank : rich.platform.ranks) rank.memory = Bytes(0);
  const Answer answer = plan(rich);
  const auto* const found = std::get_if<plan::Plan>(&answer);
  if (found == nullptr || found->step > deadline) return std::nullopt;
  double factor = 1;
  for (const plan::StagePlan& stage : found->stages) {
    const Bytes memory = question.platform.ranks[static_cast<std::size_t>(stage.rank)].memory;
    if (memory > Bytes(0)) factor = std::max(factor, stage.predicted.peak / memory);
  }
  return factor;
}

/// The least factor of all budgets with which a plan was found that ends by the deadline.
std::optional<double> least_factor(const Question& question, Seconds deadline) {
  std::optional<double> most = enough(question, deadline);
  double least = 1;
  for (int k = 0; most && k < kHalvings; ++k) {
    const double middle = (least + *most) / 2;
    (is_in_time(with_budgets(question, middle), deadline) ? *most : least) = middle;
  }
  return most;
}

plan::Infeasible too_late(const Question& question, const plan::Plan& fastest, Seconds deadline) {
  const Bytes memory = question.platform.ranks.front().memory;
  plan::Infeasible late{.reason = plan::Infeasible::Reason::kDeadline,
                        .least_step = fastest.step,
                        .last_layer = question.chain.length(),
                        .needed = fastest.stages.front().predicted.peak,
                        .available = memory};
  if (const auto factor = least_factor(question, deadline))
    late.least_budget = with_budgets(question, *factor).platform.ranks.front().memory;
  late.where = concat("a step takes ", to_text(fastest.step), " at least, later than the deadline");
  return late;
}

}  // namespace

Answer in_time(const Question& question, Answer fastest, const Deadline& deadline) {
  const auto* const plan = std::get_if<plan::Plan>(&fastest);
  if (plan == nullptr || plan->step <= deadline.of(plan->step)) return fastest;
  return too_late(question, *plan, deadline.of(plan->step));
}

}  // namespace trireme::partition
