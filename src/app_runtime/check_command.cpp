// SPDX-License-Identifier: Apache-2.0
#include "check_command.h"

#include "auto_shape.h"
#include "does_not_fit.h"
#include "job.h"
#include "job_data.h"
#include "launch.h"
#include "prepared.h"
#include "signals.h"

#include "trireme/comm/local.h"
#include "trireme/config/job.h"
#include "trireme/config/weights_notes.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/core/visible.h"
#include "trireme/io/file.h"
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
  watch_signals();
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
        1, {.timeout = job.pipeline.timeout, .stop_requested = stop_requested},
        [&](comm::Channel& control) { plan_for(ranks, job, model, control, arguments); });
    std::cerr << visible(arguments.job_file) << " is a good job: every rank within its budget\n";
    return 0;
  } catch (const DoesNotFit& error) {
    if (arguments.json) std::cout << plan::to_json(error.infeasible());
    return exit_code_of_current_exception(true, "");
  } catch (...) {
    return exit_code_of_current_exception(true, "");
  }
}

namespace {

void plan_for(int ranks, const config::JobSpec& job, const model::ChainModel& model,
              comm::Channel& control, const ForecastArguments& arguments) {
  const auto device = open_rank_device(job, control, /*stages=*/1);
  RankContext context{.channel = device->channel(),
                      .device = *device,
                      .stages = stages_for(job, ranks),
                      .threads = threads_per_rank(job, ranks).count,
                      .ranks_on_host = ranks};
  const SettledJob settled =
      fitting(with_shape(job, model, context, ranks, std::cerr), job, *device);
  context.stages = stages_for(settled.job, ranks);
  Preparation known = settled.known;
  known.costs = Preparation::Costs::kAlways;
  const Prepared prepared = fitting(
      prepare(settled.job, model, context, std::move(known), std::cerr), settled.job, *device);
  const auto& [plan, chain, simulation] =
      std::tie(prepared.plan, prepared.forecast->chain, prepared.forecast->simulation);
  if (!arguments.output.empty()) io::write_file(arguments.output, plan::to_json(plan));
  if (!arguments.report.empty())
    io::write_file(arguments.report, report::plan_page(plan, chain, simulation));
  std::cout << (arguments.json ? plan::to_json(plan) : report::plan_text(plan, chain, simulation));
  device->close();
}

}  // namespace
}  // namespace trireme::app
