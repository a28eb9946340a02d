// SPDX-License-Identifier: Apache-2.0
#include "commands/check_command.h"

#include "job/job.h"
#include "job/job_data.h"

#include "trireme/comm/local.h"
#include "trireme/config/job.h"
#include "trireme/config/weights_notes.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/core/visible.h"
#include "trireme/io/file.h"
#include "trireme/prepare/auto_shape.h"
#include "trireme/prepare/does_not_fit.h"
#include "trireme/prepare/prepared.h"
#include "trireme/ranks/launch.h"
#include "trireme/ranks/signals.h"
#include "trireme/report/plan_page.h"
#include "trireme/report/text.h"
#include "trireme/runtime/weights.h"

#include <iostream>
#include <tuple>
#include <utility>

namespace trireme::app {
namespace {

/// Plans for all ranks on one of them.
void plan_for(int ranks, const config::JobSpec& job, const model::ChainModel& model,
              comm::Channel& control, const ForecastArguments& arguments);

}  // namespace

int forecast(const ForecastArguments& arguments, const model::ModelRegistry& own) {
  ranks::watch_signals();
  try {
    for (const std::string& file : {arguments.output, arguments.report}) io::require_writable(file);
    const config::JobSpec job = load_train_job(arguments.job_file, arguments.settings, own);
    const model::ChainModel model = make_job_model(job, own);
    if (arguments.opens_inputs) {
      open_data(job, model);
      model::require_trained(model, job);
      if (!job.weights.empty()) runtime::require_weights(model, job);
      for (const std::string& note : config::weights_notes(job))
        std::cerr << "note: " << note << "\n";
    }
    const int asked = job.pipeline.stages.value_or(1) * job.pipeline.replicas.value_or(1);
    const int ranks = arguments.ranks > 0 ? arguments.ranks : asked;
    comm::run_local(
        1, {.timeout = job.pipeline.timeout, .stop_requested = ranks::stop_requested},
        [&](comm::Channel& control) { plan_for(ranks, job, model, control, arguments); });
    std::cerr << visible(arguments.job_file) << " is a good job: every rank within its budget\n";
    return 0;
  } catch (const prepare::DoesNotFit& error) {
    if (arguments.json) std::cout << plan::to_json(error.infeasible());
    return ranks::exit_code_of_current_exception(true, "");
  } catch (...) {
    return ranks::exit_code_of_current_exception(true, "");
  }
}

namespace {

void plan_for(int ranks, const config::JobSpec& job, const model::ChainModel& model,
              comm::Channel& control, const ForecastArguments& arguments) {
  const auto device = ranks::open_rank_device(job, control, /*stages=*/1);
  ranks::RankContext context{.channel = device->channel(),
                             .device = *device,
                             .stages = ranks::stages_for(job, ranks),
                             .threads = ranks::threads_per_rank(job, ranks).count,
                             .ranks_on_host = ranks};
  const prepare::SettledJob settled =
      prepare::fitting(prepare::with_shape(job, model, context, ranks, std::cerr), job, *device);
  context.stages = ranks::stages_for(settled.job, ranks);
  prepare::Preparation known = settled.known;
  known.costs = prepare::Preparation::Costs::kAlways;
  known.plans_alone = true;
  const prepare::Prepared prepared =
      prepare::fitting(prepare::prepare(settled.job, model, context, std::move(known), std::cerr),
                       settled.job, *device);
  const auto& [plan, chain, simulation] =
      std::tie(prepared.plan, prepared.forecast->chain, prepared.forecast->simulation);
  const std::string as_json = prepared.graph
                                  ? graph::to_json(prepared.graph->plan, prepared.graph->graph)
                                  : plan::to_json(plan);
  if (!arguments.output.empty()) io::write_file(arguments.output, as_json);
  if (!arguments.report.empty())
    io::write_file(arguments.report, report::plan_page(plan, chain, simulation));
  std::cout << (arguments.json ? as_json : report::plan_text(plan, chain, simulation));
  device->close();
}

}  // namespace
}  // namespace trireme::app
