// SPDX-License-Identifier: Apache-2.0
#include "trireme/prepare/does_not_fit.h"

#include "trireme/chain/layer_range.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/io/sizes.h"
#include "trireme/prepare/job_platform.h"
#include "trireme/ranks/rank_device.h"
#include "trireme/report/text.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

namespace trireme::prepare {
namespace {

/// What to say of a plan's misfit.
std::string text_of(const config::JobSpec& job, const Misfit& misfit,
                    const ranks::RankDevice& device);
/// What to say where every plan is later than the deadline.
std::string late_text(const config::JobSpec& job, const plan::Infeasible& why,
                      const ranks::RankDevice& device);
/// What to say where a rank's device is too small.
std::string device_text(const config::JobSpec& job, const Misfit& misfit,
                        const ranks::RankDevice& device);
/// The same of an offload tier that is too small for a given plan.
std::string offload_tier_text(const config::JobSpec& job, const plan::Infeasible& why);
using Kind = plan::Advice::Kind;

const std::string kBudget = "memory.device_budget", kHost = "memory.host_budget",
                  kDeadline = "plan.deadline";

/// The message of what job.fail() would throw.
std::string at_key(const config::JobSpec& job, const std::string& key, const std::string& message);
/// "is 80%, 3.20 GiB here": the budget of a rank.
std::string budget_text(const config::JobSpec& job, const plan::Infeasible& why,
                        const ranks::RankDevice& device);
/// What does not fit: "nothing fits", "the plan in p.json does not fit", "plan.solver rotor ...".
std::string asker(const config::JobSpec& job);
/// "memory.device_budget: 95MiB", a list where ranks have budgets of their own; empty where the
/// device has less.
std::string larger_budget(const config::JobSpec& job, const plan::Infeasible& why,
                          const ranks::RankDevice& device);
/// Changes other than a larger budget, by the planner's advice.
std::vector<std::string> other_ways(const plan::Infeasible& why);

}  // namespace

DoesNotFit::DoesNotFit(const config::JobSpec& job, Misfit misfit, const ranks::RankDevice& device)
    : EndingError(comm::Ending::kDoesNotFit, text_of(job, misfit, device)),
      infeasible_(std::move(misfit.infeasible)) {}

namespace {

std::string text_of(const config::JobSpec& job, const Misfit& misfit,
                    const ranks::RankDevice& device) {
  if (misfit.infeasible.reason == plan::Infeasible::Reason::kDeadline)
    return late_text(job, misfit.infeasible, device);
  return misfit.tier == Misfit::Tier::kDevice ? device_text(job, misfit, device)
                                              : offload_tier_text(job, misfit.infeasible);
}

std::string late_text(const config::JobSpec& job, const plan::Infeasible& why,
                      const ranks::RankDevice& device) {
  const std::string budget =
      why.available > Bytes(0) ? concat(" in ", to_text(why.available)) : std::string();
  const std::string larger = why.least_budget > Bytes(0) ? larger_budget(job, why, device) : "";
  return at_key(job, kDeadline,
                concat("is ", job.plan.deadline, ", but the fastest step found", budget, " takes ",
                       report::time_text(why.least_step), ". Give ", kDeadline, ": ",
                       io::time_of_at_least(why.least_step), " or later",
                       larger.empty() ? "" : ", or " + larger));
}

std::string device_text(const config::JobSpec& job, const Misfit& misfit,
                        const ranks::RankDevice& device) {
  const plan::Infeasible& why = misfit.infeasible;
  const Bytes least = device.budget_for(why.least_budget);
  std::string text = concat(budget_text(job, why, device), ", in which ", asker(job), "; ",
                            report::least_budget_text(least, misfit.is_exact));
  if (least != why.least_budget)
    text += concat(", of which plans get ", to_text(why.least_budget),
                   ": the rest is for workspaces and gaps between tensors");
  text += concat("; rank ", why.rank, " with ",
                 layers_text(chain::LayerRange{why.first_layer, why.last_layer}), " needs that",
                 why.where.empty() ? "" : concat(": ", why.where));
  std::vector<std::string> ways = other_ways(why);
  const std::string larger = larger_budget(job, why, device);
  if (!larger.empty()) ways.insert(ways.begin(), larger);
  if (!job.plan.file.empty()) ways.emplace_back("no plan.file, for a plan that needs less");
  if (ways.empty()) {
    text += concat(". The device has ", to_text(device.total_memory()), " in all");
  } else {
    text += concat(". Give ", join(ways, ", or "));
  }
  return at_key(job, kBudget, text);
}

std::string offload_tier_text(const config::JobSpec& job, const plan::Infeasible& why) {
  const tier::OffloadStoreOptions offload = offload_store_of(job);
  const bool has_disk_alone = offload.host == Bytes(0) && offload.disk > Bytes(0);
  const std::string key = has_disk_alone ? "memory.disk_budget" : kHost;
  const Bytes there = has_disk_alone ? offload.disk : offload.host;
  const std::string text =
      concat("is ", to_text(there), ", in which ", asker(job), "; rank ", why.rank, " with ",
             layers_text(chain::LayerRange{why.first_layer, why.last_layer}), " has ",
             report::exact_text(why.needed), " in its offload tier, which has ",
             report::exact_text(why.available), ". Give ", key, ": ",
             io::size_of_at_least(there + why.needed - why.available),
             ", or no plan.file, for a plan that needs less");
  return at_key(job, key, text);
}

std::string at_key(const config::JobSpec& job, const std::string& key, const std::string& message) {
  try {
    job.fail(key, message);
  } catch (const InputError& error) {
    return error.what();
  }
}

std::string budget_text(const config::JobSpec& job, const plan::Infeasible& why,
                        const ranks::RankDevice& device) {
  // Without a budget a shape is chosen within the machine's memory.
  const Bytes budget = device_budget(job, why.rank, device);
  const std::string here = to_text(budget > Bytes(0) ? budget : why.available);
  const auto section = job.document.find("memory");
  const auto written = section ? section->find("device_budget") : std::nullopt;
  if (!written || job.memory.device_budget.empty()) return concat("is auto, ", here, " here");
  if (written->kind() == io::Node::Kind::kList) return concat("has ", here, " for rank ", why.rank);
  const std::string text = written->text();
  return concat("is ", written->found(),
                job.memory.device_budget.front().share > 0 ? concat(", ", here, " here")
                                                           : io::forgotten_unit(text));
}

std::string asker(const config::JobSpec& job) {
  if (!job.plan.file.empty()) return concat("the plan in ", job.plan.file, " does not fit");
  if (job.plan.solver == "auto") return "nothing fits";
  return concat("plan.solver ", job.plan.solver, " does not fit");
}

std::string larger_budget(const config::JobSpec& job, const plan::Infeasible& why,
                          const ranks::RankDevice& device) {
  const auto ranks = job.memory.device_budget.size();
  if (ranks <= 1) {
    const Bytes least = device.budget_for(why.least_budget);
    return least > device.total_memory() ? "" : concat(kBudget, ": ", io::size_of_at_least(least));
  }
  // With all budgets this many times as large, the cut that lacks least fits.
  const double times = static_cast<double>(why.least_budget.count()) /
                       static_cast<double>(std::max(Bytes(1), why.available).count());
  std::vector<std::string> sizes;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const Bytes planned = device.plannable(device_budget(job, static_cast<int>(rank), device));
    const double enough = std::ceil(static_cast<double>(planned.count()) * times);
    const Bytes least = device.budget_for(Bytes(static_cast<std::int64_t>(enough)));
    if (least > device.total_memory()) return "";
    sizes.push_back(io::size_of_at_least(least));
  }
  return concat(kBudget, ": [", join(sizes, ", "), "]");
}

std::vector<std::string> other_ways(const plan::Infeasible& why) {
  std::vector<std::string> ways;
  for (const plan::Advice& one : why.advice) {
    if (one.kind != Kind::kHostMemory) {
      ways.push_back(one.change);
      continue;
    }
    const std::string what = one.change.substr(one.change.find(" of host memory"));
    ways.push_back(concat(kHost, ": ", io::size_of_at_least(one.bytes), what));
  }
  return ways;
}

}  // namespace
}  // namespace trireme::prepare
