// SPDX-License-Identifier: Apache-2.0
#include "shape_command.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/report/text.h"

#include <utility>
#include <vector>

namespace trireme::app {

partition::ShapeQuestion shape_question(const PlanArguments& arguments, chain::Platform platform) {
  if (arguments.batch < 1 || arguments.measured_at < 1)
    throw InputError(
        "--ranks: needs --batch, the examples of a step, and --micro-batch-size, the examples of a "
        "micro-batch with which the chain was measured");
  if (arguments.sweep > 0 || !arguments.cut.empty())
    throw InputError("--ranks: chooses the number of stages; --cut and --sweep need a fixed one");
  partition::ShapeQuestion question;
  question.chain_at = [chain = chain::load_chain(arguments.chain),
                       measured_at = arguments.measured_at](int micro_batch) {
    return partition::scaled_chain(chain, measured_at, micro_batch);
  };
  question.platform = std::move(platform);
  question.ranks = arguments.ranks;
  question.batch = arguments.batch;
  if (arguments.stages_given) question.stages = arguments.stages;
  if (arguments.replicas > 0) question.replicas = arguments.replicas;
  if (arguments.micro_batches_given) question.micro_batches = arguments.micro_batches;
  question.schedule = arguments.schedule;
  question.solver = arguments.solver;
  question.slots = arguments.slots;
  return question;
}

std::string to_text(const partition::ShapeAnswer& answer) {
  std::vector<std::vector<std::string>> rows{
      {"stages", "replicas", "micro-batches", "of", "step", "of it all-reduce", ""}};
  for (std::size_t i = 0; i < answer.tried.size(); ++i) {
    const partition::TriedShape& tried = answer.tried[i];
    std::string step = "-", reduce = "-", remark = i == answer.chosen ? "chosen" : "";
    if (tried.plan() != nullptr) {
      step = report::time_text(tried.step());
      reduce = report::time_text(tried.reduce);
    } else if (tried.answer) {
      const auto& why = std::get<plan::Infeasible>(*tried.answer);
      remark = concat("does not fit: rank ", why.rank, " needs ", trireme::to_text(why.needed));
    } else {
      remark = concat("at least ", report::time_text(tried.least), ", not planned");
    }
    rows.push_back({concat(tried.shape.stages), concat(tried.shape.replicas),
                    concat(tried.shape.micro_batches), concat(tried.shape.micro_batch), step,
                    reduce, remark});
  }
  return table(rows) +
         "\nTimes and bytes of other sizes than the measured one are in proportion to the size of "
         "the micro-batch: an estimate.\n\n";
}

std::size_t leanest(const partition::ShapeAnswer& answer) {
  std::size_t best = 0;
  const auto lacks = [&](std::size_t i) {
    const auto& why = std::get<plan::Infeasible>(*answer.tried[i].answer);
    return why.needed - why.available;
  };
  for (std::size_t i = 1; i < answer.tried.size(); ++i) {
    if (lacks(i) < lacks(best)) best = i;
  }
  return best;
}

}  // namespace trireme::app
