// SPDX-License-Identifier: Apache-2.0
#include "lean_cut.h"

#include "cut/least_cut.h"
#include "prices.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace trireme::partition {
namespace {

/// Layers on one rank.
class Stage {
 public:
  Stage(const Problem& problem, const chain::RankSpec& rank, Seconds period)
      : rank_(rank), period_(period) {
    for (const chain::LayerCost& layer : problem.chain.layers) {
      time_.push_back(time_.back() + (layer.forward + layer.backward) / rank.speed);
      energy_.push_back(energy_.back() + pass_energy(rank, layer.forward_energy, layer.forward) +
                        pass_energy(rank, layer.backward_energy, layer.backward));
    }
  }

  /// Energy of a period at the best clock; empty if the layers take longer at every clock.
  std::optional<Joules> energy(chain::LayerRange layers) const {
    const Seconds time = time_[at(layers.last)] - time_[at(layers.first - 1)];
    const Joules usual = energy_[at(layers.last)] - energy_[at(layers.first - 1)];
    std::optional<Joules> least;
    const auto look = [&](double longer, double power) {
      if (time * longer > period_ * (1 + kRounding)) return;
      const Joules idle = rank_.power.idle * (period_ - time * longer);
      const Joules energy = usual * (longer * power) + idle;
      least = std::min(least.value_or(energy), energy);
    };
    look(1, 1);
    for (const chain::Clock& clock : rank_.clocks) look(clock.time, clock.power);
    return least;
  }

 private:
  static constexpr double kRounding = 1e-9;

  const chain::RankSpec& rank_;
  Seconds period_;
  std::vector<Seconds> time_{Seconds(0)};  ///< of the layers up to each, both passes
  std::vector<Joules> energy_{Joules(0)};  ///< the same
};

/// Time of a micro-batch on every rank, recomputation included.
std::vector<Seconds> times_of(const plan::Plan& plan) {
  std::vector<Seconds> times(at(plan::ranks_of(plan)));
  for (const plan::StagePlan& stage : plan.stages)
    times[at(stage.rank)] += stage.predicted.forward + stage.predicted.backward;
  return times;
}

}  // namespace

std::optional<Cut> leanest_cut(const Problem& problem, Seconds period) {
  std::vector<Stage> stages;
  for (int k = 0; k < problem.stages; ++k)
    stages.emplace_back(problem, problem.platform.ranks[at(k)], period);
  return least_cut(all_ends(problem.chain.length(), problem.stages),
                   Joules(std::numeric_limits<double>::infinity()),
                   [&](int k, chain::LayerRange layers, Joules before, Joules) {
                     std::optional<Joules> energy = stages[at(k)].energy(layers);
                     if (energy) *energy += before;
                     return energy;
                   });
}

Problem with_recomputation_as_speed(Problem problem, const plan::Plan& plan) {
  const std::vector<Seconds> times = times_of(plan);
  std::vector<Seconds> work(times.size());
  for (const plan::StagePlan& stage : plan.stages)
    for (int i = stage.program.first_layer; i <= stage.program.last_layer; ++i)
      work[at(stage.rank)] += problem.chain.layer(i).forward + problem.chain.layer(i).backward;
  for (std::size_t rank = 0; rank < times.size(); ++rank)
    if (times[rank] > Seconds(0)) problem.platform.ranks[rank].speed = work[rank] / times[rank];
  return problem;
}

Seconds period_of(const plan::Plan& plan) {
  const std::vector<Seconds> times = times_of(plan);
  return *std::max_element(times.begin(), times.end());
}

}  // namespace trireme::partition
