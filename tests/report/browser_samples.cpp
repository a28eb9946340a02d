// SPDX-License-Identifier: Apache-2.0
#include "report/browser_samples.h"

#include "trireme/chain/platform.h"
#include "trireme/core/error.h"
#include "trireme/simulate/replay.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace trireme::report {
namespace {

using program::Op;
using simulate::Event;
using simulate::Lane;
using simulate::Simulation;

/// Layers of a stage that are recomputed or offloaded.
struct Policy {
  int first_again = 0, last_again = -1;  ///< run twice
  std::vector<int> moved;                ///< layers whose tapes are offloaded
};

chain::Chain chain_of(const std::string& name);
program::StageProgram stage(int first, int last, const Policy& policy);
SampleRun run_of(chain::Chain chain, plan::Plan plan, chain::Platform platform);
Simulation simulated(const plan::Plan& plan, const chain::Chain& chain,
                     const chain::Platform& platform);
Bytes static_bytes(const chain::Chain& chain, const program::StageProgram& program);
chain::Chain uneven(chain::Chain chain);
void add_waits(Simulation& step, int rank);
Event wait_for(const Event& next, Seconds since, bool is_alone);
void add_end(Simulation& step, int rank);

}  // namespace

SampleRun one_rank_sample() {
  chain::Platform platform = chain::uniform_platform(1, Bytes(0));
  platform.ranks[0].out = platform.ranks[0].in = BytesPerSecond(20e9);
  platform.ranks[0].host = Bytes(std::int64_t{64} << 30);
  plan::Plan plan;
  plan.solver = "hand";
  plan.micro_batches = 4;
  plan.stages.push_back({.program = stage(1, 26, {13, 24, {2, 4, 6}})});
  plan.alternatives = {{.policy = "recompute_all", .step = Seconds(0.138)},
                       {.policy = "keep_all", .infeasible = plan::Infeasible{}}};
  plan.alternatives[1].infeasible->least_budget = Bytes(9996566536);
  return run_of(chain_of("gpt2-124m"), std::move(plan), std::move(platform));
}

SampleRun pipeline_sample() {
  chain::Platform platform = chain::uniform_platform(4, Bytes(0));
  platform.default_link = {.rate = BytesPerSecond(12e9), .latency = Seconds(20e-6)};
  for (chain::RankSpec& rank : platform.ranks) {
    rank.out = rank.in = BytesPerSecond(20e9);
    rank.host = Bytes(std::int64_t{64} << 30);
  }
  plan::Plan plan;
  plan.solver = "hand";
  plan.micro_batches = 8;
  plan.stages = {{.rank = 0, .program = stage(1, 14, {4, 9, {2}})},
                 {.rank = 1, .program = stage(15, 28, {17, 20, {}})},
                 {.rank = 2, .program = stage(29, 41, {})},
                 {.rank = 3, .program = stage(42, 50, {})}};
  plan.alternatives = {{.policy = "equal split, recompute_all", .step = Seconds(0.159)}};
  return run_of(chain_of("gpt-1.3b"), std::move(plan), std::move(platform));
}

namespace {

chain::Chain chain_of(const std::string& name) {
  return chain::load_chain(TRIREME_SOURCE_DIR "/configs/chains/" + name + ".yaml");
}

program::StageProgram stage(int first, int last, const Policy& policy) {
  program::StageProgram program{.first_layer = first, .last_layer = last};
  const auto is_moved = [&](int i) {
    return std::find(policy.moved.begin(), policy.moved.end(), i) != policy.moved.end();
  };
  for (int i = first; i <= last; ++i) {
    const bool again = i >= policy.first_again && i <= policy.last_again;
    program.forward.push_back({!again                    ? Op::kForwardTape
                               : i == policy.first_again ? Op::kForwardKeep
                                                         : Op::kForward,
                               i});
    if (is_moved(i - 1)) program.forward.push_back({Op::kOffloadTape, i - 1});
  }
  for (int i = last; i >= first; --i) {
    if (i == policy.last_again) {
      for (int k = policy.first_again; k <= i; ++k)
        program.backward.push_back({Op::kForwardTape, k});
      for (auto k = policy.moved.rbegin(); k != policy.moved.rend(); ++k)
        program.backward.push_back({Op::kPrefetchTape, *k});
    }
    program.backward.push_back({Op::kBackward, i});
  }
  return program;
}

SampleRun run_of(chain::Chain chain, plan::Plan plan, chain::Platform platform) {
  plan.chain_name = chain.name;
  for (plan::StagePlan& stage : plan.stages)
    stage.static_bytes = static_bytes(chain, stage.program);
  SampleRun run{.chain = std::move(chain), .plan = std::move(plan)};
  run.predicted = simulated(run.plan, run.chain, platform);
  for (plan::StagePlan& stage : run.plan.stages) {
    stage.predicted.kept =
        simulate::replay(run.chain, stage.program, {BytesPerSecond(20e9), BytesPerSecond(20e9)})
            .kept;
    stage.predicted.peak = run.predicted.ranks[static_cast<std::size_t>(stage.rank)].peak.size;
    stage.budget = stage.predicted.peak + stage.predicted.peak / 16;
    platform.ranks[static_cast<std::size_t>(stage.rank)].memory = stage.budget;
    for (int i = stage.program.first_layer; i <= stage.program.last_layer; ++i) {
      stage.predicted.forward += run.chain.layer(i).forward;
      stage.predicted.backward += run.chain.layer(i).backward;
    }
  }
  run.plan.step = run.predicted.step;
  run.measured = simulated(run.plan, uneven(run.chain), platform);
  for (int rank = 0; rank < static_cast<int>(run.measured.ranks.size()); ++rank) {
    add_waits(run.measured, rank);
    add_end(run.measured, rank);
  }
  // All kinds of bytes move, so that no table is wider.
  for (Simulation* const step : {&run.predicted, &run.measured}) {
    for (simulate::RankResult& rank : step->ranks) {
      rank.state_moved = Bytes(1'234'567'890);
      rank.weights_moved = Bytes(2'345'678'901);
    }
  }
  for (plan::StagePlan& stage : run.plan.stages) {
    stage.offloaded_optimizer = Bytes(1'234'567'890);
    stage.streamed = {stage.program.first_layer};
  }
  return run;
}

Simulation simulated(const plan::Plan& plan, const chain::Chain& chain,
                     const chain::Platform& platform) {
  simulate::Setting setting{.chain = &chain, .platform = &platform};
  for (const plan::StagePlan& stage : plan.stages)
    setting.static_bytes.push_back(stage.static_bytes);
  Simulation step = simulate::simulate(plan::compile(plan), setting, simulate::Detail::kTimeline);
  if (step.fault) throw Error(simulate::to_text(*step.fault));
  return step;
}

Bytes static_bytes(const chain::Chain& chain, const program::StageProgram& program) {
  Bytes sum;
  for (int i = program.first_layer; i <= program.last_layer; ++i) {
    const chain::LayerCost& cost = chain.layer(i);
    sum += cost.parameters + cost.gradients + cost.optimizer;
  }
  return sum;
}

chain::Chain uneven(chain::Chain chain) {
  double angle = 0;
  for (chain::LayerCost& layer : chain.layers) {
    layer.forward = layer.forward * (1.03 + 0.12 * std::sin(angle += 1.7));
    layer.backward = layer.backward * (1.03 + 0.12 * std::sin(angle += 1.7));
  }
  return chain;
}

/// Gaps in compute are waits for what the next action needs.
void add_waits(Simulation& step, int rank) {
  std::vector<Event> waits;
  Seconds free;
  for (const Event& event : step.events) {
    if (event.rank != rank || event.lane != Lane::kCompute) continue;
    if (event.begin - free > Seconds(1e-6)) {
      waits.push_back(wait_for(event, free, step.ranks.size() == 1));
    }
    free = event.end;
  }
  step.events.insert(step.events.end(), waits.begin(), waits.end());
}

Event wait_for(const Event& next, Seconds since, bool is_alone) {
  Event wait = next;
  wait.begin = since;
  wait.end = next.begin;
  wait.action.op = Op::kPrefetchTape;
  if (is_alone) return wait;
  const bool back = next.action.op == Op::kBackward;
  wait.lane = Lane::kLink;
  wait.peer = next.rank + (back ? 1 : -1);
  wait.action.op = back ? Op::kReceiveGradient : Op::kReceiveInput;
  wait.action.layer -= back ? 0 : 1;
  return wait;
}

void add_end(Simulation& step, int rank) {
  Seconds& end = step.ranks[static_cast<std::size_t>(rank)].end;
  for (const Op op : {Op::kReduceGradients, Op::kClip, Op::kStep}) {
    step.events.push_back({rank, Lane::kCompute, {op}, end, end + Seconds(5e-4)});
    end += Seconds(5e-4);
  }
  step.step = std::max(step.step, end);
}

}  // namespace
}  // namespace trireme::report
