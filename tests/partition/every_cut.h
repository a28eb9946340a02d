// Oracle: every cut and every program of every stage, by the simulator; and lower bounds for all
// programs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/error.h"
#include "trireme/partition/planner.h"
#include "trireme/program/generate.h"
#include "trireme/schedule/named.h"
#include "trireme/simulate/replay.h"
#include "trireme/solve/exhaustive.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace trireme::partition {

struct Optimum {
  /// Least simulated step over all cuts when every stage runs a fastest program.
  double step = std::numeric_limits<double>::infinity();
  /// Lower bound for plans with one program per stage: recomputation hides behind waits as far as
  /// possible.
  double bound = std::numeric_limits<double>::infinity();
  /// Lower bound for all plans: no recomputation.
  double ideal = std::numeric_limits<double>::infinity();
  /// The lower bound that applies.
  double least_of(const plan::Plan& plan) const { return plan::has_mixes(plan) ? ideal : bound; }

  std::vector<plan::StagePlan> stages;  ///< stages with the least step
  int over = 0;  ///< cuts whose fastest programs are over a budget in the simulator
};

class EveryCut {
 public:
  EveryCut(const Question& question, bool persistent)
      : question_(question), persistent_(persistent) {}

  Optimum search() {
    extend();
    return optimum_;
  }
  /// The fastest program of first..last on rank k.
  const std::optional<program::StageProgram>& stage(int k, int first, int last) {
    const auto [entry, is_new] = stages_.try_emplace({k, first, last});
    if (is_new) entry->second = solved(k, first, last);
    return entry->second;
  }
  double time(const program::StageProgram& program) const {
    return simulate::replay(question_.chain, program).time.count();
  }

 private:
  int in_flight(int k) const {
    return question_.schedule == "gpipe" ? question_.micro_batches
                                         : std::min(question_.stages - k, question_.micro_batches);
  }
  std::int64_t channel(int boundary) const {
    return static_cast<std::int64_t>(
        std::ceil(2 * question_.platform.channel_buffers *
                  static_cast<double>(question_.chain.output(boundary).count())));
  }

  std::optional<program::StageProgram> solved(int k, int first, int last) const {
    Bytes room = question_.platform.ranks[static_cast<std::size_t>(k)].memory;
    for (int i = first; i <= last; ++i) {
      const chain::LayerCost& layer = question_.chain.layer(i);
      room -= layer.parameters + layer.gradients + layer.optimizer;
    }
    if (first > 1) room -= Bytes(channel(first - 1));
    if (last < question_.chain.length()) room -= Bytes(channel(last));
    if (last == question_.chain.length() && question_.schedule == "gpipe")
      room -= question_.chain.output(last) * (question_.micro_batches - 1);
    const int others = in_flight(k) - 1;
    std::optional<program::StageProgram> best;
    double least = std::numeric_limits<double>::infinity();
    // With others in flight every cap on the kept bytes is a problem of its own.
    for (Bytes cap; cap <= room; cap += Bytes(1)) {
      solve::ExhaustiveLimits limits{.persistent = persistent_};
      if (others > 0) limits.most_kept = cap;
      const solve::Problem problem{.chain = &question_.chain,
                                   .first_layer = first,
                                   .last_layer = last,
                                   .budget = others > 0 ? room - cap * others : room,
                                   .link = {}};
      if (problem.budget < Bytes(0)) break;
      if (auto program = solve::search_fastest(problem, limits)) {
        if (time(*program) < least) {
          least = time(*program);
          best = std::move(program);
        }
      }
      if (others == 0) break;
    }
    return best;
  }

  void extend() {
    const int k = static_cast<int>(cut_.size()), layers = question_.chain.length();
    const int first = cut_.empty() ? 1 : cut_.back() + 1;
    const bool last_stage = k + 1 == question_.stages;
    const int most = last_stage ? layers : layers - (question_.stages - 1 - k);
    for (int last = last_stage ? layers : first; last <= most; ++last) {
      if (!stage(k, first, last)) continue;
      cut_.push_back(last);
      if (last_stage) {
        judge();
      } else {
        extend();
      }
      cut_.pop_back();
    }
  }

  void judge() {
    plan::Plan plan;
    plan.schedule = question_.schedule;
    plan.micro_batches = question_.micro_batches;
    int first = 1;
    std::vector<double> forward, backward, again;
    for (std::size_t k = 0; k < cut_.size(); ++k) {
      plan::StagePlan stage_plan;
      stage_plan.rank = static_cast<int>(k);
      stage_plan.program = *stage(stage_plan.rank, first, cut_[k]);
      const double speed = question_.platform.ranks[k].speed;
      const simulate::Replay replay = simulate::replay(question_.chain, stage_plan.program);
      double f = 0, b = 0;
      for (int i = first; i <= cut_[k]; ++i) {
        f += question_.chain.layer(i).forward.count() / speed;
        b += question_.chain.layer(i).backward.count() / speed;
      }
      forward.push_back(f);
      backward.push_back(b);
      again.push_back(replay.recompute.count() / speed);
      plan.stages.push_back(std::move(stage_plan));
      first = cut_[k] + 1;
    }
    const auto simulation = simulated(question_, plan, simulate::Detail::kSummary);
    bool fits = true;
    for (std::size_t k = 0; k < cut_.size(); ++k)
      fits = fits && simulation.ranks[k].peak.size <= question_.platform.ranks[k].memory;
    if (fits && simulation.step.count() < optimum_.step) optimum_.stages = plan.stages;
    if (fits) optimum_.step = std::min(optimum_.step, simulation.step.count());
    optimum_.over += fits ? 0 : 1;
    optimum_.bound = std::min(optimum_.bound, hidden(forward, backward, again));
    const std::vector<double> nothing(again.size(), 0);
    optimum_.ideal = std::min(optimum_.ideal, hidden(forward, backward, nothing));
  }

  /// The step if every stage could run all its recomputation while it waits for the gradient.
  double hidden(const std::vector<double>& forward, const std::vector<double>& backward,
                const std::vector<double>& again) const {
    const schedule::PipelineShape shape{question_.stages, question_.micro_batches};
    const schedule::Order order =
        question_.schedule == "gpipe" ? schedule::gpipe(shape) : schedule::one_f_one_b(shape);
    std::vector<std::vector<int>> micro_batches;
    for (const auto& passes : order) micro_batches.push_back(schedule::micro_batches_of(passes));
    const std::size_t stages = forward.size();
    const auto count = static_cast<std::size_t>(question_.micro_batches);
    constexpr double kNotYet = -1;
    std::vector input(stages, std::vector<double>(count, kNotYet)), gradient = input;
    std::fill(input[0].begin(), input[0].end(), 0.0);
    std::vector<std::size_t> next(stages, 0);
    std::vector<double> clock(stages, 0), down(stages, 0), up(stages, 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t k = 0; k < stages; ++k) {
        while (next[k] < order[k].size()) {
          const auto& pass = order[k][next[k]];
          const auto m = static_cast<std::size_t>(micro_batches[k][next[k]]);
          const auto link = [&](std::size_t from) {
            return question_.platform.link(static_cast<int>(from), static_cast<int>(from) + 1);
          };
          const auto lane = [&](std::size_t from) {
            const chain::LinkSpec spec = link(from);
            return spec.time(question_.chain.output(cut_[from])).count() - spec.latency.count();
          };
          if (pass.kind == schedule::Pass::Kind::kForward) {
            if (input[k][m] < 0) break;
            clock[k] = std::max(clock[k], input[k][m]) + forward[k];
            if (k + 1 == stages) {
              gradient[k][m] = clock[k];
            } else {
              down[k] = std::max(down[k], clock[k]) + lane(k);
              input[k + 1][m] = down[k] + link(k).latency.count();
            }
          } else {
            if (gradient[k][m] < 0) break;
            clock[k] = std::max(clock[k] + again[k], gradient[k][m]) + backward[k];
            if (k > 0) {
              up[k] = std::max(up[k], clock[k]) + lane(k - 1);
              gradient[k - 1][m] = up[k] + link(k - 1).latency.count();
            }
          }
          ++next[k];
          moved = true;
        }
      }
    }
    return *std::max_element(clock.begin(), clock.end());
  }

  const Question& question_;
  bool persistent_;
  std::vector<int> cut_;
  std::map<std::tuple<int, int, int>, std::optional<program::StageProgram>> stages_;
  Optimum optimum_;
};

}  // namespace trireme::partition
