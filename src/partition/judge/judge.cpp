// SPDX-License-Identifier: Apache-2.0
#include "judge.h"

#include "memory/offload.h"
#include "memory/rank.h"
#include "stage/stage_policy.h"
#include "values/lookup.h"

#include "trireme/chain/cost_fields.h"
#include "trireme/core/error.h"
#include "trireme/program/generate.h"
#include "trireme/program/retape.h"
#include "trireme/simulate/replay.h"

#include <algorithm>
#include <type_traits>
#include <utility>

namespace trireme::partition {
namespace {

/// Replay's prediction for a micro-batch on the rank, with `room` bytes for copies, or unlimited.
plan::StagePrediction predicted(const Problem& problem, const chain::RankSpec& rank,
                                std::optional<Bytes> room, const program::StageProgram& program,
                                const std::vector<simulate::LayerClocks>* clocks = nullptr) {
  const simulate::CopyLanes lanes{.out = rank.out, .in = rank.in, .budget = room};
  const simulate::Replay replay =
      rank.speed == 1
          ? simulate::replay(problem.chain, program, lanes, clocks)
          : simulate::replay(at_speed(problem.chain, rank.speed), program, lanes, clocks);
  ensure(!replay.fault, replay.fault ? simulate::to_text(*replay.fault) : "");
  return {.forward = replay.forward,
          .backward = replay.backward,
          .kept = replay.kept,
          .peak = {},
          .offloaded = replay.moved};
}

/// Mean over the mix's cycle of the predictions of a stage's programs, its own first.
plan::StagePrediction mean(const std::vector<plan::StagePrediction>& of, const program::Mix& mix) {
  if (mix.cycle.empty()) return of.front();
  plan::StagePrediction sum;
  for (const int number : mix.cycle) {
    const plan::StagePrediction& one = of[at(number)];
    sum.forward += one.forward;
    sum.backward += one.backward;
    sum.kept += one.kept;
    sum.offloaded += one.offloaded;
  }
  const auto count = static_cast<int>(mix.cycle.size());
  return {.forward = sum.forward / count,
          .backward = sum.backward / count,
          .kept = sum.kept / count,
          .peak = {},
          .offloaded = sum.offloaded / count};
}

/// The room for copies of a micro-batch, which wait for it as replay has it only with one stage.
std::optional<Bytes> room_for_copies(const Problem& problem, const plan::StagePlan& stage) {
  if (problem.stages > 1 || stage.budget == Bytes(0)) return std::nullopt;
  return stage.budget - stage.static_bytes;
}

/// Replay's prediction for a stage, whose programs are complete; `room` as for a program.
plan::StagePrediction predicted(const Problem& problem, const plan::StagePlan& stage,
                                std::optional<Bytes> room,
                                const std::vector<simulate::LayerClocks>* clocks = nullptr) {
  const chain::RankSpec& rank = problem.platform.ranks[at(stage.rank)];
  std::vector<plan::StagePrediction> each;
  for (const program::StageProgram* const program : stage.mix.programs(stage.program))
    each.push_back(predicted(problem, rank, room, *program, clocks));
  return mean(each, stage.mix);
}

plan::StagePlan stage_of(const Problem& problem, int rank, const FixedBytes& fixed,
                         program::StageProgram program, program::Mix mix) {
  const chain::RankSpec& spec = problem.platform.ranks[at(rank)];
  plan::StagePlan stage;
  stage.rank = rank;
  stage.budget = spec.memory;
  stage.static_bytes = fixed.held;
  stage.offloaded_optimizer = fixed.offloaded_optimizer;
  stage.program = program::with_retapes(std::move(program), problem.chain);
  for (program::StageProgram& other : mix.others)
    other = program::with_retapes(std::move(other), problem.chain);
  stage.mix = std::move(mix);
  stage.predicted = predicted(problem, stage, room_for_copies(problem, stage));
  return stage;
}

/// The factors of the rank's clock of this name; "": the usual one.
simulate::ClockFactors factors_of(const chain::RankSpec& rank, const std::string& name) {
  if (name.empty()) return {};
  const auto clock = std::find_if(rank.clocks.begin(), rank.clocks.end(),
                                  [&](const chain::Clock& one) { return one.name == name; });
  if (clock == rank.clocks.end())
    throw InputError(concat("the plan has the clock '", name,
                            "', which the platform does not name: give the platform that the plan "
                            "was made for"));
  return {.time = clock->time, .power = clock->power};
}

/// Clears the settings of an overlapped optimizer step where the plan has none.
void with_updates_that_are(plan::Plan& plan) {
  const std::vector<std::vector<int>> updated = plan::updated_layers(plan);
  const std::vector<Bytes> windows = plan::update_windows(plan);
  if (std::all_of(updated.begin(), updated.end(),
                  [](const auto& layers) { return layers.empty(); }))
    plan.updates = program::UpdatePlace::kAtEnd;
  if (windows == std::vector<Bytes>(windows.size())) plan.update_window = Bytes(0);
}

/// Whether a plan with several stages on a rank that runs from the second step on deadlocks in the
/// first, where copies may have to wait for the receiver.
bool waits_in_first_step(const Problem& problem, const Simulated& judged) {
  if (!schedule::shares_ranks(plan::placement(judged.plan)) ||
      std::none_of(judged.simulation.ranks.begin(), judged.simulation.ranks.end(),
                   [](const simulate::RankResult& rank) { return rank.moved > Bytes(0); }))
    return false;
  simulate::Setting setting = setting_of(problem, judged.plan);
  setting.is_first_step = true;
  return simulate::simulate(plan::compile(judged.plan, problem.chain), setting,
                            simulate::Detail::kFigures)
      .fault.has_value();
}

/// Simulates the plan and fills in its predictions, or says why it cannot run.
std::optional<std::string> fault_of(const Problem& problem, Simulated& judged) {
  plan::Plan& plan = judged.plan;
  judged.simulation = simulate::simulate(plan::compile(plan, problem.chain),
                                         setting_of(problem, plan), simulate::Detail::kFigures);
  if (const auto& fault = judged.simulation.fault) return simulate::to_text(*fault);
  if (waits_in_first_step(problem, judged)) return "ranks wait in a circle in the first step";
  plan.step = judged.simulation.step;
  plan.bubble = judged.simulation.bubble;
  plan.recompute = judged.simulation.recompute;
  plan.energy = judged.simulation.energy.all();
  for (plan::StagePlan& stage : plan.stages)
    stage.predicted.peak = judged.simulation.ranks[at(stage.rank)].peak.size;
  return std::nullopt;
}

/// Unused budget by rank. A rank that offloads activations has none, since room there saves time.
/// Room for streamed weights does not count, even if a step never needs all of it: validation holds
/// other layers together.
std::vector<Bytes> room_of(const Problem& problem, const plan::Plan& plan) {
  std::vector<Bytes> room(problem.platform.ranks.size());
  for (const plan::StagePlan& stage : plan.stages)
    room[at(stage.rank)] =
        stage.budget == Bytes(0) ? kUnlimited : stage.budget - stage.predicted.peak;
  const std::vector<std::vector<int>> streamed = plan::streamed_layers(plan);
  for (std::size_t rank = 0; rank < streamed.size(); ++rank)
    room[rank] -= plan::streamed_weights(plan, problem.chain, static_cast<int>(rank)) -
                  saved_bytes(problem.chain, streamed[rank], plan.weights_at_once);
  for (const plan::StagePlan& stage : plan.stages)
    if (stage.predicted.offloaded > Bytes(0)) room[at(stage.rank)] = Bytes(0);
  return room;
}

}  // namespace

std::vector<simulate::LayerClocks> clocks_of(const chain::Platform& platform,
                                             const plan::Plan& plan) {
  if (!plan::names_clocks(plan)) return {};
  std::vector<simulate::LayerClocks> clocks(at(plan.stages.back().program.last_layer + 1));
  for (const plan::StagePlan& stage : plan.stages) {
    const chain::RankSpec& rank = platform.ranks[at(stage.rank)];
    for (int i = stage.program.first_layer; i <= stage.program.last_layer; ++i)
      clocks[at(i)] = {.forward = factors_of(rank, stage.forward_clock),
                       .backward = factors_of(rank, stage.backward_clock)};
  }
  return clocks;
}

simulate::Setting setting_of(const Problem& problem, const plan::Plan& plan) {
  std::vector<LayerRuns> runs(problem.platform.ranks.size());
  for (const plan::StagePlan& stage : plan.stages)
    runs[at(stage.rank)].emplace_back(stage.program.first_layer, stage.program.last_layer);
  const auto of_ranks = [&](auto values) {
    values.resize(runs.size());
    return values;
  };
  std::vector<Bytes> offloaded = of_ranks(plan::offloaded_optimizer(plan));
  const std::vector<std::vector<int>> streamed = of_ranks(plan::streamed_layers(plan));
  const std::vector<Bytes> windows = of_ranks(plan::update_windows(plan));
  std::vector<Bytes> fixed;
  for (std::size_t rank = 0; rank < runs.size(); ++rank)
    fixed.push_back(static_bytes(problem, runs[rank]) - offloaded[rank] -
                    saved_bytes(problem.chain, streamed[rank], plan.weights_at_once) +
                    windows[rank]);
  return {.chain = &problem.chain,
          .platform = &problem.platform,
          .static_bytes = std::move(fixed),
          .offloaded_optimizer = std::move(offloaded),
          .update_window = plan.update_window,
          .streamed = plan::streamed_weights(plan, problem.chain),
          .weights_at_once = plan.weights_at_once,
          .replicas = problem.replicas,
          .optimizer_shards = plan.optimizer_shards,
          .clocks = clocks_of(problem.platform, plan)};
}

simulate::Simulation simulated(const Problem& problem, const plan::Plan& plan,
                               simulate::Detail detail) {
  simulate::Simulation simulation =
      simulate::simulate(plan::compile(plan, problem.chain), setting_of(problem, plan), detail);
  ensure(!simulation.fault, simulation.fault ? simulate::to_text(*simulation.fault) : "");
  return simulation;
}

Bytes keep_all_budget(const Problem& problem) {
  const int last = problem.chain.length();
  return prepared(problem.chain, program::keep_all(1, last)).needs.peak +
         static_bytes(problem, {{1, last}});
}

Seconds ideal_step(const Problem& problem) {
  Seconds pass;
  for (const chain::LayerCost& layer : problem.chain.layers) pass += layer.forward + layer.backward;
  double speed = 0;
  for (int k = 0; k < problem.stages; ++k) speed += problem.platform.ranks[at(k)].speed;
  return pass * (problem.micro_batches / speed);
}

Simulated judged(const Question& question, const std::string& solver,
                 std::vector<program::StageProgram> programs, std::vector<program::Mix> mixes) {
  PlacedStages stages{.ranks = schedule::one_each(static_cast<int>(programs.size())),
                      .order = order_of(question, static_cast<int>(programs.size())),
                      .schedule = {},
                      .mixes = std::move(mixes)};
  auto result = judged(question, solver, std::move(programs), std::move(stages));
  ensure(result.has_value(), "stages on ranks of their own do not wait in a circle");
  return *std::move(result);
}

std::optional<Simulated> judged(const Question& question, const std::string& solver,
                                std::vector<program::StageProgram> programs, PlacedStages stages) {
  Simulated result;
  plan::Plan& plan = result.plan;
  plan.schedule = stages.schedule.empty() ? question.schedule : stages.schedule;
  plan.solver = solver;
  plan.micro_batches = question.micro_batches;
  plan.weights_at_once = question.weights_at_once.value_or(program::kLeastAtOnce);
  plan.replicas = question.replicas;
  plan.optimizer_shards = question.optimizer_shards;
  plan.updates = question.updates.value_or(program::UpdatePlace::kAtEnd);
  plan.update_window = update_window(question);
  StageShares shares(question, programs, stages.ranks);
  for (std::size_t k = 0; k < programs.size(); ++k) {
    StageShares::Share share =
        shares.next(stages.ranks[k], {programs[k].first_layer, programs[k].last_layer});
    plan.stages.push_back(
        stage_of(question, stages.ranks[k], share.fixed, std::move(programs[k]),
                 stages.mixes.empty() ? program::Mix{} : std::move(stages.mixes[k])));
    plan.stages.back().streamed = std::move(share.streamed);
  }
  plan::set_order(plan, std::move(stages.order));
  with_updates_that_are(plan);
  if (const auto fault = fault_of(question, result)) {
    ensure(schedule::shares_ranks(stages.ranks), *fault);
    return std::nullopt;
  }
  return result;
}

std::optional<plan::Plan> on_budgets(const Problem& problem, plan::Plan plan) {
  std::vector<Bytes> always(problem.platform.ranks.size());
  for (plan::StagePlan& stage : plan.stages) {
    const std::size_t rank = at(stage.rank);
    stage.budget = problem.platform.ranks[rank].memory;
    always[rank] += stage.static_bytes;
    if (stage.budget > Bytes(0) && always[rank] > stage.budget) return std::nullopt;
  }
  Simulated result{.plan = std::move(plan), .simulation = {}};
  if (fault_of(problem, result) || !is_within(problem, result.simulation)) return std::nullopt;
  const simulate::Setting setting = setting_of(problem, result.plan);
  if (simulate::validate(plan::compile(result.plan, problem.chain), setting)) return std::nullopt;
  // A validation may hold streamed weights together that no step does: the last layer's and the
  // first one's.
  if (!is_within(problem, simulate::simulate(validation_of(problem, result.plan), setting,
                                             simulate::Detail::kFigures)))
    return std::nullopt;
  return std::move(result.plan);
}

program::Program validation_of(const Problem& problem, const plan::Plan& plan) {
  const int groups = static_cast<int>(plan.stages.size()) + 1;
  return plan::compile_forwards(plan, groups * plan.group, plan::streaming(plan, problem.chain));
}

plan::StagePrediction predicted_alone(const Problem& problem, const plan::StagePlan& stage) {
  return predicted(problem, stage, std::nullopt);
}

std::optional<plan::Plan> predicted_again(const Problem& problem, plan::Plan plan) {
  const std::vector<simulate::LayerClocks> clocks = clocks_of(problem.platform, plan);
  for (plan::StagePlan& stage : plan.stages)
    stage.predicted = predicted(problem, stage, room_for_copies(problem, stage),
                                clocks.empty() ? nullptr : &clocks);
  return on_budgets(problem, std::move(plan));
}

Bytes needed(const simulate::RankResult& rank) {
  return std::max(rank.peak.size, rank.at_once);
}

std::vector<Bytes> excess(const Problem& problem, const simulate::Simulation& simulation) {
  std::vector<Bytes> over;
  for (std::size_t k = 0; k < simulation.ranks.size(); ++k) {
    const Bytes memory = problem.platform.ranks[k].memory;
    const Bytes more = needed(simulation.ranks[k]) - memory;
    over.push_back(memory > Bytes(0) ? std::max(more, Bytes(0)) : Bytes(0));
  }
  return over;
}

bool keeps_everything(const plan::Plan& plan) {
  return plan.recompute == Seconds(0) &&
         std::none_of(plan.stages.begin(), plan.stages.end(), [](const plan::StagePlan& stage) {
           return stage.predicted.offloaded > Bytes(0);
         });
}

bool is_within(const Problem& problem, const simulate::Simulation& simulation) {
  if (simulation.fault) return false;
  for (std::size_t k = 0; k < simulation.ranks.size(); ++k) {
    const chain::RankSpec& rank = problem.platform.ranks[k];
    const simulate::RankResult& ran = simulation.ranks[k];
    if (ran.offloaded.all() > rank.offload_capacity()) return false;
    if (rank.memory > Bytes(0) && needed(ran) > rank.memory) return false;
  }
  return true;
}

void require_valid(const Problem& problem, const plan::Plan& plan) {
  const auto fault =
      simulate::validate(plan::compile(plan, problem.chain), setting_of(problem, plan));
  ensure(!fault, fault ? simulate::to_text(*fault) : "");
}

Seconds copies_of(const Problem& problem, const plan::Plan& plan) {
  const std::vector<Bytes> offloaded = plan::offloaded_optimizer(plan);
  Seconds longest;
  for (std::size_t rank = 0; rank < offloaded.size(); ++rank)
    if (offloaded[rank] > Bytes(0))
      longest = std::max(longest, offloaded[rank] / copy_rate(problem.platform.ranks[rank]));
  return longest;
}

plan::Plan with_room_used(const Problem& problem, plan::Plan plan) {
  std::vector<Bytes> room = room_of(problem, plan), back(room.size());
  for (plan::StagePlan& stage : plan.stages) {
    const std::size_t rank = at(stage.rank);
    const Bytes some = std::clamp(room[rank], Bytes(0), stage.offloaded_optimizer);
    stage.offloaded_optimizer -= some;
    stage.static_bytes += some;
    room[rank] -= some;
    back[rank] += some;
  }
  for (plan::StagePlan& stage : plan.stages) stage.predicted.peak += back[at(stage.rank)];
  const simulate::Simulation simulation = simulated(problem, plan, simulate::Detail::kFigures);
  plan.step = simulation.step;
  plan.bubble = simulation.bubble;
  return plan;
}

}  // namespace trireme::partition
