// Writes the pages that the browser test looks at into a folder.
// SPDX-License-Identifier: Apache-2.0
#include "report/browser_samples.h"

#include "trireme/io/file.h"
#include "trireme/report/chrome_trace.h"
#include "trireme/report/plan_page.h"
#include "trireme/report/run_page.h"
#include "trireme/report/sweep.h"

#include <cmath>
#include <exception>
#include <filesystem>
#include <iostream>

namespace trireme::report {
namespace {

Sweep sample_sweep();
void write_pages(const std::filesystem::path& folder);
std::string page_of(const SampleRun& run, std::string name, TrainingCurves training = {});
/// Curves of a run that resumed from step 100 and was stopped in step 260.
std::string stopped_page(const SampleRun& run);
/// 300 steps, with validation.
TrainingCurves sample_training();

void write_pages(const std::filesystem::path& folder) {
  const SampleRun one = one_rank_sample(), pipeline = pipeline_sample();
  io::write_file(folder / "plan.html", plan_page(one.plan, one.chain, one.predicted));
  io::write_file(folder / "pipeline.html",
                 plan_page(pipeline.plan, pipeline.chain, pipeline.predicted));
  io::write_file(folder / "run.html", page_of(one, "gpt2-124m on one rank", sample_training()));
  io::write_file(folder / "pipeline_run.html", page_of(pipeline, "gpt-1.3b on four ranks"));
  io::write_file(folder / "stopped_run.html", stopped_page(one));
  io::write_file(folder / "sweep.html", sweep_page(sample_sweep()));
  io::write_file(folder / "trace.json",
                 chrome_trace(pipeline.predicted, pipeline.measured, pipeline.chain));
}

std::string page_of(const SampleRun& run, std::string name, TrainingCurves training) {
  return run_page({.name = std::move(name),
                   .plan = run.plan,
                   .chain = run.chain,
                   .predicted = &run.predicted,
                   .measured = &run.measured,
                   .facts = {{"steps", "300"}, {"train loss", "2.3598"}},
                   .training = std::move(training)});
}

std::string stopped_page(const SampleRun& run) {
  TrainingCurves training = sample_training();
  training.resumed_after = 100;
  for (auto* const curve : {&training.train_loss, &training.validation_loss, &training.throughput,
                            &training.gradient_norm, &training.learning_rate})
    std::erase_if(*curve, [](const CurvePoint& point) { return point.step > 259; });
  for (CurvePoint& point : training.throughput) point.value *= 2.1;
  for (CurvePoint& point : training.learning_rate) point.value /= 100;
  return run_page({.name = "gpt2-124m, stopped",
                   .plan = run.plan,
                   .chain = run.chain,
                   .predicted = &run.predicted,
                   .facts = {{"steps", "259, 159 of them in 2:30 min"}},
                   .training = std::move(training),
                   .early_end = "stopped in step 260 of 300",
                   .note = "a step took 25.0 % longer than predicted (500 ms, predicted 400 ms), "
                           "from layers that were measured earlier: measure again with `trireme "
                           "profile --fresh configs/small-memory.yaml --set "
                           "memory.device_budget=100MiB`"});
}

TrainingCurves sample_training() {
  TrainingCurves training;
  for (int step = 1; step <= 300; ++step) {
    const double noise = std::sin(step * 12.9898);
    training.train_loss.push_back({step, 2.3 + 3 * std::exp(-step / 60.0) + 0.1 * noise});
    training.throughput.push_back({step, 10'500 + 300 * noise});
    training.gradient_norm.push_back({step, 0.4 + std::exp(-step / 30.0) + 0.05 * noise});
    training.learning_rate.push_back({step, 6e-4 * (0.55 + 0.45 * std::cos(step / 95.5))});
    if (step % 100 == 0)
      training.validation_loss.push_back({step, 2.35 + 3 * std::exp(-step / 60.0)});
  }
  return training;
}

/// Step times that fall with memory, one solver that needs more than the others.
Sweep sample_sweep() {
  Sweep sweep{.chain_name = "gpt2-124m",
              .ideal = Seconds(0.1),
              .solvers = {"keep_all", "recompute_all", "sqrt", "revolve", "rotor", "pofo"}};
  for (int k = 0; k < 12; ++k) {
    const Bytes budget(std::int64_t{1 + k} << 30);
    for (std::size_t solver = 0; solver < sweep.solvers.size(); ++solver) {
      SweepPoint point{.budget = budget, .solver = sweep.solvers[solver]};
      if (k >= 11 - 2 * static_cast<int>(solver)) {
        const double excess = 0.05 / (1 + k) * (8 - static_cast<double>(solver));
        point.cost = SweepCost{.step = sweep.ideal + Seconds(excess), .peak = budget};
      }
      sweep.points.push_back(std::move(point));
    }
  }
  return sweep;
}

}  // namespace
}  // namespace trireme::report

int main(int count, char** arguments) {
  if (count != 2) {
    std::cerr << "usage: report_pages FOLDER\n";
    return 2;
  }
  try {
    trireme::report::write_pages(arguments[1]);
  } catch (const std::exception& error) {
    std::cerr << "report_pages: " << error.what() << "\n";
    return 1;
  }
}
