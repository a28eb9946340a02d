// The outcome of a run, gathered from all ranks.
// SPDX-License-Identifier: Apache-2.0
#include "step_history.h"
#include "trainer_impl.h"

#include "trireme/core/error.h"
#include "trireme/runtime/digest.h"

#include <sys/resource.h>

#include <cstdint>
#include <vector>

namespace trireme::runtime {
namespace {

Bytes most_resident() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return Bytes(std::int64_t{usage.ru_maxrss} << 10);
}

}  // namespace

Outcome Trainer::Impl::outcome() {
  const ParametersDigest parameters =
      parameters_digest(setup.channel, position, stage, reducer, *optimizer);
  refuse_lost_values(setup.channel,
                     parameters.lost.empty()
                         ? state->lost_buffer(steps_done)
                         : lost_value(parameters.lost, steps_done, parameters.found));
  const auto require_same = [&](const std::vector<int>& group, const std::string& mine) {
    for (const std::string& other :
         comm::all_gather(setup.channel, group, mine, "digests of the replicas"))
      if (other != mine)
        throw Error(
            "the replicas' parameters differ at the end of the run: a defect of Trireme or of this "
            "machine");
  };
  require_same(comm::everyone(setup.channel), parameters.whole);
  // The whole of the shards is the same by construction; the weights that each replica computes
  // with are its own.
  if (has_shards()) require_same(position.replica_group(), weights_digest(stage));
  const std::optional<TypicalSteps> typical =
      typical_steps(setup.channel, step_seconds, samples.places());
  const Mean train_loss = mean_of_last(losses.history().means, setup.job.report.log_every);
  Outcome outcome{.steps = steps_done,
                  .train_loss = train_loss.value,
                  .train_loss_steps = train_loss.count,
                  .validation_loss = validation_loss,
                  .step = typical ? Seconds(step_seconds[typical->median]) : Seconds(0),
                  .parameters_digest = parameters.whole,
                  .losses_digest = losses.digest(),
                  .ranks = gather_figures(typical ? times[typical->median] : Times{})};
  if (typical) {
    const auto made = static_cast<std::int64_t>(step_seconds.size());
    outcome.recorded_number = steps_done - made + static_cast<std::int64_t>(typical->recorded) + 1;
    if (position.replica == 0)
      outcome.recorded_step =
          gather_step(setup.channel, position.pipeline_group(), samples.at(typical->recorded));
    outcome.tokens_per_s =
        static_cast<double>(tokens) / static_cast<double>(made) / outcome.step.count();
  }
  outcome.bubble = bubble_of(outcome.ranks, outcome.step);
  return outcome;
}

std::vector<RankFigures> Trainer::Impl::gather_figures(const Times& of_median_step) {
  const RankFigures mine{.rank = setup.channel.rank(),
                         .budget = setup.memory.has_budget() ? setup.memory.budget() : Bytes(0),
                         .peak = setup.memory.peak(),
                         .static_bytes = static_bytes,
                         .optimizer_away = optimizer->away_bytes(),
                         .weights_away = weights ? weights->bytes() : Bytes(0),
                         .process = most_resident(),
                         .reserves = setup.reserves ? setup.reserves() : DeviceReserves{},
                         .times = of_median_step};
  std::vector<RankFigures> figures;
  for (const auto& of_rank :
       comm::all_gather(setup.channel, comm::everyone(setup.channel), std::vector{mine}, "figures"))
    figures.push_back(of_rank.at(0));
  return figures;
}

ParameterCount Trainer::Impl::counted() const {
  ParameterCount mine;
  for (const StageParameter& parameter : stage.parameters()) {
    if (!reducer.is_first_use(parameter)) continue;
    mine.all += parameter.weight.numel();
    if (parameter.is_trained) mine.trained += parameter.weight.numel();
  }
  ParameterCount sum;
  for (const auto& of_rank : comm::all_gather(setup.channel, position.pipeline_group(),
                                              std::vector{mine}, "numbers of parameters")) {
    sum.all += of_rank.at(0).all;
    sum.trained += of_rank.at(0).trained;
  }
  return sum;
}

}  // namespace trireme::runtime
