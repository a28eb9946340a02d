// SPDX-License-Identifier: Apache-2.0
#include "shared_plans.h"

#include "cut/in_flight.h"
#include "judge/judge.h"
#include "stage/recompute_early.h"

#include "trireme/program/generate.h"

#include <algorithm>
#include <set>
#include <utility>

namespace trireme::partition {
namespace {

/// Numbers in flight beyond those of 1F1B* that are tried.
constexpr int kMoreInFlight = 2;
/// How often a plan over a budget is solved again with less, and one below it with more.
constexpr int kTightenings = 6;
constexpr int kLoosenings = 3;

/// The solver's name in plans.
constexpr const char* kName = "madpipe";

std::vector<program::StageProgram> programs_of(const plan::Plan& plan) {
  std::vector<program::StageProgram> programs;
  for (const plan::StagePlan& stage : plan.stages) programs.push_back(stage.program);
  return programs;
}

}  // namespace

std::vector<Counts> SharedPlans::counts_for(const Allocation& allocation) const {
  const Question& question = room_.question();
  const int stages = allocation.stages(), most = question.micro_batches;
  if (question.schedule == "gpipe") return {Counts(allocation.ends.size(), most)};
  std::vector<double> times, links, loads(static_cast<std::size_t>(room_.stages()), 0);
  double period = 0;
  for (int k = 0; k < stages; ++k) {
    times.push_back(room_.work(allocation.rank(k), allocation.first(k), allocation.last(k)));
    double& load = loads[static_cast<std::size_t>(allocation.rank(k))];
    load += times.back();
    period = std::max(period, load);
    if (k + 1 == stages) continue;
    links.push_back(2 *
                    room_.transfer(allocation.rank(k), allocation.rank(k + 1), allocation.last(k)));
    period = std::max(period, links.back());
  }
  if (period == 0) period = 1;
  const Counts least = least_in_flight(times, links, period);
  std::set<Counts> found;
  for (int more = 0; more <= kMoreInFlight; ++more) {
    Counts counts;
    for (int k = 0; k < stages; ++k) {
      const int wanted = least[static_cast<std::size_t>(k)] + (k + 1 < stages ? more : 0);
      counts.push_back(std::min(wanted, most));
    }
    found.insert(std::move(counts));
  }
  Counts usual;
  for (int k = 0; k < stages; ++k) usual.push_back(std::min(stages - k, most));
  found.insert(std::move(usual));
  return {found.begin(), found.end()};
}

double SharedPlans::estimate(const Allocation& allocation, const Counts& counts) {
  const std::vector<Bytes> nothing(static_cast<std::size_t>(room_.stages()));
  const auto found = programs(allocation, counts, nothing, How::kQuick);
  return found ? turns(allocation, counts, *found).end : kNever;
}

std::optional<plan::Plan> SharedPlans::built(const Allocation& allocation, const Counts& counts) {
  std::vector<Bytes> less(static_cast<std::size_t>(room_.stages()));
  const auto make = [&](const std::vector<Bytes>& now_less) -> std::optional<Simulated> {
    const auto found = programs(allocation, counts, now_less, How::kCareful);
    return found ? judge(allocation, counts, *found) : std::nullopt;
  };
  auto found = tightened(room_.question(), kTightenings, less, make);
  if (!found) return std::nullopt;
  return hidden(allocation, counts, loosened(allocation, counts, *std::move(found), less));
}

std::optional<Simulated> SharedPlans::judge(const Allocation& allocation, const Counts& counts,
                                            const Programs& chosen) const {
  std::vector<program::StageProgram> copies;
  for (std::size_t k = 0; k < chosen.size(); ++k)
    copies.push_back(program::moved_to(chosen[k]->program, allocation.first(static_cast<int>(k))));
  return judged(room_.question(), kName, std::move(copies),
                {.ranks = allocation.ranks,
                 .in_flight = counts,
                 .turns = turns(allocation, counts, chosen).turns});
}

Bytes SharedPlans::memory(const Allocation& allocation, const std::vector<int>& stages) const {
  Bytes left = kUnlimited;
  Bytes taken;
  for (const int k : stages) {
    const Bytes alone = room_.memory(allocation.rank(k), allocation.first(k), allocation.last(k));
    if (alone == kUnlimited) return kUnlimited;
    left = room_.question().platform.ranks[static_cast<std::size_t>(allocation.rank(k))].memory;
    taken += left - alone;
  }
  return left - taken;
}

std::optional<SharedPlans::Programs> SharedPlans::programs(const Allocation& allocation,
                                                           const Counts& counts,
                                                           const std::vector<Bytes>& less,
                                                           How how) {
  Programs found(allocation.ends.size(), nullptr);
  for (const std::vector<int>& stages : stages_by_rank(allocation, room_.stages())) {
    if (stages.empty()) continue;
    const auto rank = static_cast<std::size_t>(allocation.rank(stages.front()));
    const Bytes room = memory(allocation, stages);
    const Bytes left = room == kUnlimited ? room : room - less[rank];
    if (stages.size() == 1) {
      const int k = stages.front();
      const auto place = static_cast<std::size_t>(k);
      found[place] =
          options_.fastest(allocation.first(k), allocation.last(k), left, counts[place], how);
      if (found[place] == nullptr) return std::nullopt;
      continue;
    }
    std::vector<StageOptions::Asked> asked;
    for (const int k : stages)
      asked.push_back(
          {allocation.first(k), allocation.last(k), counts[static_cast<std::size_t>(k)]});
    const auto chosen = options_.shared(asked, left, how);
    if (!chosen) return std::nullopt;
    for (std::size_t i = 0; i < stages.size(); ++i)
      found[static_cast<std::size_t>(stages[i])] = (*chosen)[i];
  }
  return found;
}

program::TimedTurns SharedPlans::turns(const Allocation& allocation, const Counts& counts,
                                       const Programs& programs) const {
  const Question& question = room_.question();
  program::StageTimes times;
  for (int k = 0; k < allocation.stages(); ++k) {
    const StageNeeds& needs = programs[static_cast<std::size_t>(k)]->needs;
    const double speed = room_.speed(allocation.rank(k));
    times.forward.push_back(needs.forward.count() / speed);
    times.backward.push_back(needs.backward.count() / speed);
    if (k + 1 == allocation.stages()) continue;
    const chain::LinkSpec link = question.platform.link(allocation.rank(k), allocation.rank(k + 1));
    times.message.push_back(link.time(question.chain.output(allocation.last(k))).count());
  }
  const program::PassOrder order =
      program::pass_order(question.schedule, counts, question.micro_batches);
  return program::take_turns(order, allocation.ranks, times);
}

std::vector<Bytes> SharedPlans::over_budgets(const simulate::Simulation& simulation) const {
  std::vector<Bytes> over(static_cast<std::size_t>(room_.stages()));
  for (std::size_t rank = 0; rank < over.size(); ++rank) {
    const Bytes memory = room_.question().platform.ranks[rank].memory;
    if (memory > Bytes(0)) over[rank] = needed(simulation.ranks[rank]) - memory;
  }
  return over;
}

// Stages of one rank seldom hold their most at once, so what they are given together may be more
// than the rank has.
plan::Plan SharedPlans::loosened(const Allocation& allocation, const Counts& counts,
                                 Simulated found, std::vector<Bytes> less) {
  const auto stages = stages_by_rank(allocation, room_.stages());
  for (int round = 0; round < kLoosenings && found.plan.recompute > Seconds(0); ++round) {
    const std::vector<Bytes> over = over_budgets(found.simulation);
    const std::vector<Bytes> before = less;
    for (std::size_t rank = 0; rank < less.size(); ++rank)
      if (stages[rank].size() > 1) less[rank] += over[rank];
    if (less == before) break;
    const auto chosen = programs(allocation, counts, less, How::kCareful);
    if (!chosen) break;
    auto result = judge(allocation, counts, *chosen);
    if (!result || result->plan.step >= found.plan.step) break;
    const std::vector<Bytes> still = over_budgets(result->simulation);
    if (std::any_of(still.begin(), still.end(), [](Bytes bytes) { return bytes > Bytes(0); }))
      break;
    found = *std::move(result);
  }
  return std::move(found.plan);
}

plan::Plan SharedPlans::hidden(const Allocation& allocation, const Counts& counts,
                               plan::Plan plan) const {
  const Question& question = room_.question();
  if (plan.recompute == Seconds(0)) return plan;
  const auto by_rank = stages_by_rank(allocation, room_.stages());
  for (int k = 0; k + 1 < allocation.stages(); ++k) {
    const auto place = static_cast<std::size_t>(k);
    const std::vector<int>& stages = by_rank[static_cast<std::size_t>(allocation.rank(k))];
    Bytes left = memory(allocation, stages);
    for (const int other : stages) {
      const auto there = static_cast<std::size_t>(other);
      if (other != k && left != kUnlimited)
        left -= plan.stages[there].predicted.kept * counts[there];
    }
    const StageQuestion asked{.first = allocation.first(k),
                              .last = allocation.last(k),
                              .memory = left,
                              .in_flight = counts[place]};
    std::vector<program::StageProgram> programs = programs_of(plan);
    program::StageProgram early = recompute_early(question.chain, asked, programs[place]);
    if (early == programs[place]) continue;
    programs[place] = std::move(early);
    auto result = judged(question, kName, std::move(programs),
                         {.ranks = allocation.ranks, .in_flight = counts, .turns = plan.turns});
    if (!result || result->plan.step >= plan.step) continue;
    const std::vector<Bytes> over = over_budgets(result->simulation);
    if (std::all_of(over.begin(), over.end(), [](Bytes bytes) { return bytes <= Bytes(0); }))
      plan = std::move(result->plan);
  }
  return plan;
}

}  // namespace trireme::partition
