// SPDX-License-Identifier: Apache-2.0
#include "question.h"

#include "trireme/core/text.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace trireme::prepare {

void take_options(const config::JobSpec& job, partition::Question& question) {
  partition::set_schedule(question, job.pipeline.schedule);
  question.solver = job.plan.solver;
  question.slots = job.plan.slots;
  question.optimizer_copies = partition::optimizer_copies_of(job.memory.optimizer);
  question.group = job.pipeline.group;
  question.splits_backward = job.pipeline.split_backward == "auto";
  question.clips = job.train.clip_norm > 0;
  question.updates = partition::updates_of(job.memory.updates);
}

void require_solver(const config::JobSpec& job) {
  const std::vector<std::string>& known = partition::known_solvers();
  const std::string name = job.plan.solver.substr(0, job.plan.solver.find(' '));
  if (std::find(known.begin(), known.end(), name) != known.end()) return;
  job.fail("plan.solver", concat("is ", job.plan.solver, did_you_mean(name, known),
                                 ", must be one of ", join(known, ", ")));
}

partition::Goal goal_of(const config::JobSpec& job) {
  const std::optional<partition::Deadline> deadline = partition::deadline_of(job.plan.deadline);
  if (!deadline)
    job.fail("plan.deadline",
             concat("is ", job.plan.deadline, ", must be ", partition::kDeadlines));
  return {.objective = partition::objective_named(job.plan.objective).value(),
          .deadline = *deadline};
}

bool needs_joules(const config::JobSpec& job) {
  return goal_of(job).objective == partition::Objective::kEnergy &&
         job.energy.power == chain::Power{};
}

}  // namespace trireme::prepare
