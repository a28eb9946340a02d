// SPDX-License-Identifier: Apache-2.0
#include "one_rank.h"

#include "trireme/core/error.h"
#include "trireme/program/generate.h"
#include "trireme/simulate/replay.h"
#include "trireme/simulate/validate.h"
#include "trireme/solve/solve.h"

#include <algorithm>
#include <utility>

namespace trireme::app {
namespace {

/// The chain with the rank's own times, as solvers and replay want it.
chain::Chain at_speed(const chain::Chain& chain, double speed);
solve::Problem problem_of(const OneRank& question, const chain::Chain& timed, Bytes fixed);
plan::Plan predicted(const OneRank& question, const chain::Chain& timed, const std::string& solver,
                     program::StageProgram program);
plan::Infeasible with_static(plan::Infeasible infeasible, Bytes fixed, Bytes memory);
simulate::Setting setting_of(const OneRank& question);

}  // namespace

Bytes static_bytes(const chain::Chain& chain, int first, int last) {
  Bytes sum;
  for (int i = first; i <= last; ++i) {
    const chain::LayerCost& layer = chain.layer(i);
    sum += layer.parameters + layer.gradients + layer.optimizer;
  }
  return sum;
}

Bytes keep_all_budget(const OneRank& question) {
  const int last = question.chain.length();
  const simulate::Replay replay = simulate::replay(question.chain, program::keep_all(1, last));
  ensure(!replay.fault, "a program that keeps everything is legal");
  return replay.peak + static_bytes(question.chain, 1, last);
}

Seconds ideal_step(const OneRank& question) {
  Seconds pass;
  for (const chain::LayerCost& layer : question.chain.layers)
    pass += layer.forward + layer.backward;
  return pass * (question.micro_batches / question.rank().speed);
}

Answer answer(const OneRank& question, const std::string& solver) {
  const chain::Chain timed = at_speed(question.chain, question.rank().speed);
  const Bytes fixed = static_bytes(timed, 1, timed.length());
  const Bytes memory = question.rank().memory;
  solve::Result result = solve::solve(solver, problem_of(question, timed, fixed));
  if (auto* infeasible = std::get_if<plan::Infeasible>(&result))
    return with_static(std::move(*infeasible), fixed, memory);
  auto& solution = std::get<solve::Solution>(result);
  const Bytes peak = solution.peak + fixed;
  // Static bytes alone may exceed the memory where a chain holds nothing else.
  if (peak > memory) {
    return with_static({.first_layer = 1,
                        .last_layer = timed.length(),
                        .needed = solution.peak,
                        .least_budget = solution.peak,
                        .where = "parameters, gradients and optimizer alone"},
                       fixed, memory);
  }
  return predicted(question, timed, solver, std::move(solution.program));
}

simulate::Simulation simulated(const OneRank& question, const plan::Plan& plan,
                               simulate::Detail detail) {
  simulate::Simulation simulation =
      simulate::simulate(plan::compile(plan), setting_of(question), detail);
  ensure(!simulation.fault, simulation.fault ? simulate::to_text(*simulation.fault) : "");
  return simulation;
}

namespace {

chain::Chain at_speed(const chain::Chain& chain, double speed) {
  chain::Chain timed = chain;
  for (chain::LayerCost& layer : timed.layers) {
    layer.forward = layer.forward / speed;
    layer.backward = layer.backward / speed;
  }
  return timed;
}

solve::Problem problem_of(const OneRank& question, const chain::Chain& timed, Bytes fixed) {
  const chain::RankSpec& rank = question.rank();
  solve::Problem problem;
  problem.chain = &timed;
  problem.first_layer = 1;
  problem.last_layer = timed.length();
  problem.budget = std::max(Bytes(0), rank.memory - fixed);
  if (rank.out > BytesPerSecond(0) && rank.in > BytesPerSecond(0))
    problem.link =
        solve::HostLink{.out = rank.out, .in = rank.in, .capacity = rank.host + rank.disk};
  problem.slots = question.slots;
  return problem;
}

plan::Plan predicted(const OneRank& question, const chain::Chain& timed, const std::string& solver,
                     program::StageProgram program) {
  const chain::RankSpec& rank = question.rank();
  const Bytes fixed = static_bytes(timed, 1, timed.length());
  const simulate::Replay replay = simulate::replay(
      timed, program, {.out = rank.out, .in = rank.in, .budget = rank.memory - fixed});
  ensure(!replay.fault, "a solver's program is legal");

  plan::Plan plan;
  plan.chain_name = question.chain.name;
  plan.chain_digest = chain::digest(question.chain);
  plan.solver = solver;
  plan.micro_batches = question.micro_batches;
  plan.stages.emplace_back();
  plan::StagePlan& stage = plan.stages.front();
  stage.budget = rank.memory;
  stage.static_bytes = fixed;
  stage.program = std::move(program);
  stage.predicted = {.forward = replay.forward,
                     .backward = replay.backward,
                     .kept = replay.kept,
                     .peak = {},
                     .offloaded = replay.moved};
  const auto fault = simulate::validate(plan::compile(plan), setting_of(question));
  ensure(!fault, fault ? simulate::to_text(*fault) : "");
  const simulate::Simulation simulation = simulated(question, plan, simulate::Detail::kSummary);
  plan.step = simulation.step;
  plan.bubble = simulation.bubble;
  plan.recompute = simulation.recompute;
  stage.predicted.peak = simulation.ranks.front().peak.size;
  return plan;
}

plan::Infeasible with_static(plan::Infeasible infeasible, Bytes fixed, Bytes memory) {
  infeasible.needed += fixed;
  infeasible.least_budget += fixed;
  infeasible.available = memory;
  return infeasible;
}

simulate::Setting setting_of(const OneRank& question) {
  return {.chain = &question.chain,
          .platform = &question.platform,
          .static_bytes = {static_bytes(question.chain, 1, question.chain.length())}};
}

}  // namespace
}  // namespace trireme::app
