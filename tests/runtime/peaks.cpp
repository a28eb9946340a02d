// SPDX-License-Identifier: Apache-2.0
#include "peaks.h"

#include "step/executor.h"

#include "trireme/chain/platform.h"
#include "trireme/comm/local.h"
#include "trireme/core/error.h"
#include "trireme/model/precision.h"
#include "trireme/profile/measure.h"
#include "trireme/profile/tied_weights.h"
#include "trireme/simulate/replay.h"
#include "trireme/simulate/simulate.h"
#include "trireme/tier/memory.h"

#include <ATen/Parallel.h>

#include <algorithm>

namespace trireme::runtime {
namespace {

program::StageProgram in_segments(int first, int last) {
  using program::Op;
  program::StageProgram program{first, last, {}, {}};
  const int taped = first + (last - first) / 2 * 2;
  for (int i = first; i < taped; ++i)
    program.forward.push_back({(i - first) % 2 == 0 ? Op::kForwardKeep : Op::kForward, i});
  for (int i = taped; i <= last; ++i) program.forward.push_back({Op::kForwardTape, i});
  for (int i = last; i >= taped; --i) program.backward.push_back({Op::kBackward, i});
  for (int begin = taped - 2; begin >= first; begin -= 2) {
    for (const Op op : {Op::kForwardTape, Op::kBackward}) {
      const bool down = op == Op::kBackward;
      program.backward.push_back({op, down ? begin + 1 : begin});
      program.backward.push_back({op, down ? begin : begin + 1});
    }
  }
  return program;
}

/// What a stage's transport holds in addition to the program's values: with more than one
/// micro-batch, a receive posted ahead on every stream and the last gradient that was sent; and the
/// last output that was sent, unless it is in its tape anyway, because that is kept and a further
/// micro-batch is in flight.
Bytes channel_bytes(const chain::Chain& chain, const program::StageProgram& stage, int in_flight,
                    int micro_batches) {
  const std::int64_t others = micro_batches > 1 ? 1 : 0;
  const bool in_tape = stage.forward.back().op == program::Op::kForwardTape && in_flight > 1;
  Bytes bytes{0};
  if (stage.first_layer > 1) bytes += 2 * others * chain.output(stage.first_layer - 1);
  if (stage.last_layer < chain.length())
    bytes += (others + (in_tape ? 0 : 1)) * chain.output(stage.last_layer);
  return bytes;
}

Bytes fixed_bytes(const chain::Chain& chain, const model::ChainModel& model,
                  const config::TrainSpec& train, const program::StageProgram& stage) {
  Bytes bytes{0};
  for (int i = stage.first_layer; i <= stage.last_layer; ++i) {
    const chain::LayerCost& cost = chain.layer(i);
    bytes += cost.parameters + cost.gradients + cost.optimizer;
  }
  return bytes -
         profile::TiedWeights(model, train).shared({{stage.first_layer, stage.last_layer}}).all();
}

}  // namespace

std::string name(Policy policy) {
  switch (policy) {
    case Policy::kKeepAll:
      return "keep_all";
    case Policy::kRecomputeAll:
      return "recompute_all";
    case Policy::kSegments:
      return "segments";
  }
  return "";
}

plan::Plan plan_for(const model::ChainModel& model, const config::JobSpec& job,
                    const std::vector<int>& cut, Policy policy) {
  plan::Plan plan = plan_of(model, job, {.cut = cut, .recompute = policy == Policy::kRecomputeAll});
  if (policy != Policy::kSegments) return plan;
  for (plan::StagePlan& stage : plan.stages)
    stage.program = in_segments(stage.program.first_layer, stage.program.last_layer);
  return plan;
}

std::vector<RankBytes> run_once(const config::JobSpec& job, const model::ChainModel& model,
                                const plan::Plan& plan) {
  tier::install_cpu_allocator();
  const program::Program program = plan::compile(plan);
  const DataSource data = random_data(model, job);
  std::vector<RankBytes> ranks(plan.stages.size());
  comm::run_local(static_cast<int>(ranks.size()), {.timeout = Seconds(30), .stop_requested = {}},
                  [&](comm::Channel& channel) {
                    at::set_num_threads(*job.threads);
                    const auto rank = static_cast<std::size_t>(channel.rank());
                    const program::StageProgram& mine = plan.stages[rank].program;
                    tier::MemoryAccount& account = tier::MemoryAccount::open("rank");
                    const tier::AccountScope scope(account);
                    const Position position = Position::of(channel.rank(), 1, channel.size());
                    std::vector<int> layers;
                    for (int i = mine.first_layer; i <= mine.last_layer; ++i) layers.push_back(i);
                    const model::Precision precision = model::precision_of(job.train.precision);
                    Stage stage(model, layers, job.train.seed, precision);
                    Boundary boundary(channel, position.pipeline_group(), program.rank_of_layer);
                    Reducer reducer(channel, position, stage);
                    Optimizer optimizer(job.train.optimizer, stage);
                    Executor executor({stage, boundary, reducer, optimizer},
                                      {.seed = job.train.seed,
                                       .precision = precision,
                                       .loss_scale = 1.0 / config::micro_batches(job)});
                    const Feed feed{[&](int m) { return data.input(0, m); },
                                    [&](int m) { return data.target(0, m); }};
                    ranks[rank].fixed = account.live();
                    account.reset_peak();
                    executor.train(program.ranks[rank], feed, 0, 1e-3);
                    boundary.flush();
                    ranks[rank].peak = account.peak();
                  });
  return ranks;
}

std::vector<PredictedBytes> predict(const config::JobSpec& job, const model::ChainModel& model,
                                    const plan::Plan& plan) {
  const chain::Chain chain = profile::measure(
      model, job, {.threads = *job.threads, .least_time = Seconds(0), .least_runs = 1});
  const int stages = static_cast<int>(plan.stages.size());
  const int micro_batches = config::micro_batches(job);
  chain::Platform platform = chain::uniform_platform(stages, Bytes(0));
  platform.channel_buffers = 1;
  const simulate::Simulation simulation =
      simulate::simulate(plan::compile(plan), {.chain = &chain, .platform = &platform});
  std::vector<PredictedBytes> ranks;
  for (int k = 0; k < stages; ++k) {
    const auto r = static_cast<std::size_t>(k);
    const program::StageProgram& stage = plan.stages[r].program;
    const int in_flight = std::min(stages - k, micro_batches);
    const simulate::Replay replay = simulate::replay(chain, stage);
    ensure(!replay.fault, "the baselines' programs are legal");
    const Bytes fixed = fixed_bytes(chain, model, job.train, stage);
    ranks.push_back({.fixed = fixed,
                     .by_formula = fixed + channel_bytes(chain, stage, in_flight, micro_batches) +
                                   (in_flight - 1) * replay.kept + replay.peak,
                     .simulated = fixed + simulation.ranks[r].peak.size,
                     .cuts = (k > 0 ? chain.output(stage.first_layer - 1) : Bytes(0)) +
                             (k + 1 < stages ? chain.output(stage.last_layer) : Bytes(0))});
  }
  return ranks;
}

}  // namespace trireme::runtime
