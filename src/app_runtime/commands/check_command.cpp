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

/// Plans for all ranks on one of them. Returns what forecast_text() does.
std::string plan_for(int ranks, const config::JobSpec& job, const model::ChainModel& model,
                     comm::Channel& control, const ForecastArguments& arguments,
                     std::ostream& notes);

}  // namespace

std::string forecast_text(const ForecastArguments& arguments, std::ostream& notes) {
  const ranks::WatchedSignals signals;
  const Planning& planning = arguments.planning;
  for (const std::string& file : {planning.plan_file, planning.page}) io::require_writable(file);
  const config::JobSpec job = load_train_job(planning.job);
  const model::ChainModel model = make_job_model(job, planning.job.kinds);
  if (arguments.opens_inputs) {
    open_data(job, model, planning.job);
    model::require_trained(model, job);
    if (!job.weights.empty()) runtime::require_weights(model, job);
    for (const std::string& note : config::weights_notes(job)) notes << "note: " << note << "\n";
  }
  const int asked = job.pipeline.stages.value_or(1) * job.pipeline.replicas.value_or(1);
  const int ranks = planning.ranks > 0 ? planning.ranks : asked;
  std::string text;
  comm::run_local(1, {.timeout = job.pipeline.timeout, .stop_requested = ranks::stop_requested},
                  [&](comm::Channel& control) {
                    text = plan_for(ranks, job, model, control, arguments, notes);
                  });
  return text;
}

int forecast(ForecastArguments arguments, const model::ModelRegistry& own) {
  arguments.planning.job.kinds = own;
  try {
    std::cout << forecast_text(arguments, std::cerr);
    std::cerr << visible(arguments.planning.job.file)
              << " is a good job: every rank within its budget\n";
    return 0;
  } catch (const prepare::DoesNotFit& error) {
    if (arguments.json) std::cout << plan::to_json(error.infeasible());
    return ranks::exit_code_of_current_exception(true, "");
  } catch (...) {
    return ranks::exit_code_of_current_exception(true, "");
  }
}

namespace {

std::string plan_for(int ranks, const config::JobSpec& job, const model::ChainModel& model,
                     comm::Channel& control, const ForecastArguments& arguments,
                     std::ostream& notes) {
  const auto device = ranks::open_rank_device(job, control, /*stages=*/1);
  ranks::RankContext context{.channel = device->channel(),
                             .device = *device,
                             .stages = ranks::stages_for(job, ranks),
                             .threads = ranks::threads_per_rank(job, ranks).count,
                             .ranks_on_host = ranks};
  const prepare::SettledJob settled =
      prepare::fitting(prepare::with_shape(job, model, context, ranks, notes), job, *device);
  context.stages = ranks::stages_for(settled.job, ranks);
  prepare::Preparation known = settled.known;
  known.costs = prepare::Preparation::Costs::kAlways;
  known.plans_alone = true;
  const prepare::Prepared prepared = prepare::fitting(
      prepare::prepare(settled.job, model, context, std::move(known), notes), settled.job, *device);
  const auto& [plan, chain, simulation] =
      std::tie(prepared.plan, prepared.forecast->chain, prepared.forecast->simulation);
  const std::string as_json = prepared.graph
                                  ? graph::to_json(prepared.graph->plan, prepared.graph->graph)
                                  : plan::to_json(plan);
  const Planning& planning = arguments.planning;
  if (!planning.plan_file.empty()) io::write_file(planning.plan_file, as_json);
  if (!planning.page.empty())
    io::write_file(planning.page, report::plan_page(plan, chain, simulation));
  device->close();
  return arguments.json ? as_json : report::plan_text(plan, chain, simulation);
}

}  // namespace
}  // namespace trireme::app
