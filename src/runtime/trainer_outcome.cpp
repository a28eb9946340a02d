// What is known of a run that has finished, gathered from all ranks.
// SPDX-License-Identifier: Apache-2.0
#include "saved/digest.h"
#include "saved/step_history.h"
#include "trainer_impl.h"

#include "trireme/core/error.h"

#include <sys/resource.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace trireme::runtime {
namespace {

Bytes most_resident() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return Bytes(std::int64_t{usage.ru_maxrss} << 10);
}

}  // namespace

FinishedRun Trainer::Impl::finished() {
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
  record::RunSummary summary{
      .steps = steps_done,
      .train_loss = train_loss.value,
      .train_loss_steps = train_loss.count,
      .validation_loss = validation_loss,
      .parameters_digest = parameters.whole,
      .losses_digest = losses.digest(),
      .ranks = gather_ranks(typical ? times[typical->median] : record::StepTimes{})};
  if (!typical) return {.summary = std::move(summary), .recorded = {}};
  const auto made = static_cast<std::int64_t>(step_seconds.size());
  summary.step = Seconds(step_seconds[typical->median]);
  summary.tokens_per_s =
      static_cast<double>(tokens) / static_cast<double>(made) / summary.step.count();
  RecordedStep recorded{
      .step = {}, .number = steps_done - made + static_cast<std::int64_t>(typical->recorded) + 1};
  if (position.replica == 0)
    recorded.step =
        gather_step(setup.channel, position.pipeline_group(), samples.at(typical->recorded));
  return {.summary = std::move(summary), .recorded = std::move(recorded)};
}

std::vector<record::RankSummary> Trainer::Impl::gather_ranks(
    const record::StepTimes& of_median_step) {
  record::RankSummary mine{.rank = setup.channel.rank(),
                           .budget = setup.memory.has_budget() ? setup.memory.budget() : Bytes(0),
                           .peak = setup.memory.peak(),
                           .static_bytes = static_bytes,
                           .offloaded_optimizer = optimizer->offloaded_bytes(),
                           .offloaded_weights = weights ? weights->bytes() : Bytes(0),
                           .process = most_resident(),
                           .times = of_median_step,
                           .has_meter = setup.meter != nullptr};
  if (energy && !step_seconds.empty())
    mine.energy = *energy / static_cast<double>(step_seconds.size());
  if (setup.reserves) mine.reserves = setup.reserves();
  std::vector<record::RankSummary> ranks;
  for (const auto& of_rank :
       comm::all_gather(setup.channel, comm::everyone(setup.channel), std::vector{mine}, "figures"))
    ranks.push_back(of_rank.at(0));
  return ranks;
}

record::ParameterCount Trainer::Impl::counted() const {
  record::ParameterCount mine;
  for (const StageParameter& parameter : stage.parameters()) {
    if (!reducer.is_first_use(parameter)) continue;
    mine.all += parameter.weight.numel();
    if (parameter.is_trained) mine.trained += parameter.weight.numel();
  }
  record::ParameterCount sum;
  for (const auto& of_rank : comm::all_gather(setup.channel, position.pipeline_group(),
                                              std::vector{mine}, "numbers of parameters")) {
    sum.all += of_rank.at(0).all;
    sum.trained += of_rank.at(0).trained;
  }
  return sum;
}

}  // namespace trireme::runtime
