// SPDX-License-Identifier: Apache-2.0
#include "trade_off.h"

#include "axes/axis.h"
#include "axes/solvers.h"
#include "clocks.h"
#include "in_time.h"
#include "judge/judge.h"
#include "lean_cut.h"
#include "prices.h"
#include "values/lookup.h"

#include "trireme/core/error.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <utility>

namespace trireme::partition {
namespace {

/// Plans of a search at other prices whose real costs are predicted: the fastest at these prices.
constexpr std::size_t kPredicted = 16;
/// Plans whose clocks are searched.
constexpr std::size_t kClocked = 4;
/// Deadlines for clocks, as factors of the fastest step, where the user gives none.
constexpr std::array kFactors{1.0, 1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0};
/// Prices between two that were tried: rounds, each in both gaps next to the best.
constexpr int kRounds = 2;

/// The search for the trade-off.
class Trade {
 public:
  Trade(const Question& question, Seconds deadline) : question_(question), deadline_(deadline) {}

  void add(std::vector<plan::Plan> plans) {
    plans_.insert(plans_.end(), std::make_move_iterator(plans.begin()),
                  std::make_move_iterator(plans.end()));
    plans_ = undominated(std::move(plans_));
  }
  void try_prices();
  void try_clocks(const plan::Plan& fastest);
  TradeOff plans() { return std::move(plans_); }

 private:
  /// A price of copies that was tried, and the least energy by the deadline among its plans.
  struct Tried {
    double copies = 1;
    double energy = 0;
  };

  /// Adds the plans of a search at these prices; returns their least energy by the deadline.
  double look(const Prices& prices);
  void refine_copies(std::vector<Tried> tried);
  /// The fastest plan with this cut, one chunk on every rank.
  const std::optional<plan::Plan>& with_cut(const Cut& cut);

  const Question& question_;
  Seconds deadline_;
  TradeOff plans_;
  std::map<Cut, std::optional<plan::Plan>> with_cut_ = {};
};

double least_energy(const TradeOff& plans, Seconds deadline) {
  const plan::Plan* const leanest = leanest_by(plans, deadline);
  return leanest == nullptr ? std::numeric_limits<double>::infinity() : leanest->energy.count();
}

/// The fastest of these plans, each once.
std::vector<plan::Plan> fastest_of(std::vector<plan::Plan> plans) {
  std::stable_sort(plans.begin(), plans.end(),
                   [](const plan::Plan& a, const plan::Plan& b) { return a.step < b.step; });
  plans.erase(std::unique(plans.begin(), plans.end(),
                          [](const plan::Plan& a, const plan::Plan& b) {
                            return a.step == b.step && a.stages == b.stages;
                          }),
              plans.end());
  plans.resize(std::min(plans.size(), kPredicted));
  return plans;
}

double Trade::look(const Prices& prices) {
  Question asked = priced(question_, prices);
  asked.quick = has_quick_solvers(asked);
  std::vector<plan::Plan> real;
  for (plan::Plan& plan : fastest_of(explored_plan(asked).plans)) {
    plan.alternatives.clear();
    if (auto fits = predicted_again(question_, std::move(plan))) real.push_back(*std::move(fits));
  }
  const double least = least_energy(undominated(real), deadline_);
  add(std::move(real));
  return least;
}

void Trade::try_prices() {
  std::vector<Tried> tried{{.copies = 1, .energy = least_energy(plans_, deadline_)}};
  for (const Prices& prices : prices_to_try(question_)) {
    const double energy = look(prices);
    if (prices.joules == 0 && !std::isinf(prices.copies)) tried.push_back({prices.copies, energy});
  }
  if (tried.size() > 1) refine_copies(std::move(tried));
}

// Energy falls with the price of copies, and the step gets longer until it misses the deadline: the
// best price is next to the best one tried.
void Trade::refine_copies(std::vector<Tried> tried) {
  for (int round = 0; round < kRounds; ++round) {
    std::sort(tried.begin(), tried.end(),
              [](const Tried& a, const Tried& b) { return a.copies < b.copies; });
    const auto best =
        std::min_element(tried.begin(), tried.end(),
                         [](const Tried& a, const Tried& b) { return a.energy < b.energy; });
    std::vector<double> middles;
    if (best != tried.begin()) middles.push_back(std::sqrt(best->copies * (best - 1)->copies));
    if (best + 1 != tried.end()) middles.push_back(std::sqrt(best->copies * (best + 1)->copies));
    for (const double middle : middles)
      tried.push_back({middle, look({.joules = 0, .copies = middle})});
  }
}

void Trade::try_clocks(const plan::Plan& fastest) {
  if (!has_clocks(question_)) return;
  std::vector<plan::Plan> slowed;
  std::vector<Seconds> deadlines{deadline_};
  if (deadline_ == kAnyTime)
    for (const double factor : kFactors) deadlines.push_back(fastest.step * factor);
  const Problem recomputing = with_recomputation_as_speed(question_, fastest);
  for (const Seconds deadline : deadlines) {
    std::vector<plan::Plan> usual;
    for (const plan::Plan& plan : plans_)
      if (plan.step <= deadline && !plan::names_clocks(plan)) usual.push_back(plan);
    if (usual.size() > kClocked) usual.erase(usual.begin(), usual.end() - kClocked);
    if (kCut.is_open(question_) && deadline != kAnyTime) {
      const Seconds period = period_of(fastest) * (deadline / fastest.step);
      if (const auto cut = leanest_cut(recomputing, period))
        if (const auto& plan = with_cut(*cut)) usual.push_back(*plan);
    }
    for (plan::Plan& plan : usual) plan = with_clocks(question_, std::move(plan), deadline);
    slowed.insert(slowed.end(), usual.begin(), usual.end());
  }
  add(std::move(slowed));
}

const std::optional<plan::Plan>& Trade::with_cut(const Cut& cut) {
  return once(with_cut_, cut, [&]() -> std::optional<plan::Plan> {
    Question asked = question_;
    asked.chunks = kNoChunks;
    asked.quick = has_quick_solvers(asked);
    asked.cut = std::vector<int>(cut.begin(), cut.end() - 1);
    Answer answer = plan(asked);
    auto* const found = std::get_if<plan::Plan>(&answer);
    if (found == nullptr) return std::nullopt;
    found->alternatives.clear();
    return predicted_again(question_, *std::move(found));
  });
}

}  // namespace

TradeOff undominated(std::vector<plan::Plan> plans) {
  std::stable_sort(plans.begin(), plans.end(), [](const plan::Plan& a, const plan::Plan& b) {
    return a.step != b.step ? a.step < b.step : a.energy < b.energy;
  });
  TradeOff kept;
  for (plan::Plan& plan : plans)
    if (kept.empty() || plan.energy < kept.back().energy) kept.push_back(std::move(plan));
  return kept;
}

const plan::Plan* leanest_by(const TradeOff& plans, Seconds deadline) {
  const plan::Plan* leanest = nullptr;
  for (const plan::Plan& plan : plans)
    if (plan.step <= deadline) leanest = &plan;
  return leanest;
}

Traded trade_off(const Question& question, const Deadline& deadline) {
  if (!knows_energy(question))
    throw InputError(
        "objective energy: neither the chain (forward_j, backward_j) nor the platform (busy_w, "
        "idle_w) says what energy costs; see docs/energy.md");
  Explored fastest = explored_plan(question);
  fastest.answer = in_time(question, std::move(fastest.answer), deadline);
  const auto* const plan = std::get_if<plan::Plan>(&fastest.answer);
  if (plan == nullptr) return {.fastest = std::move(fastest), .plans = {}};
  Trade trade(question, deadline.of(plan->step));
  std::vector<plan::Plan> plans = std::move(fastest.plans);
  plans.insert(plans.begin(), *plan);
  trade.add(std::move(plans));
  trade.try_prices();
  trade.try_clocks(*plan);
  TradeOff all = trade.plans();
  for (plan::Plan& one : all) {
    one.chain_name = plan->chain_name;
    one.chain_digest = plan->chain_digest;
  }
  return {.fastest = std::move(fastest), .plans = std::move(all)};
}

}  // namespace trireme::partition
