// SPDX-License-Identifier: Apache-2.0
#include "axis.h"
#include "judge/judge.h"
#include "values/effort.h"

#include "trireme/schedule/named.h"
#include "trireme/schedule/order.h"

#include <algorithm>

namespace trireme::partition {
namespace {

/// Plans on a CPU that were faster by less by prediction ran slower.
constexpr double kLeastGain = 0.01;
/// Named schedules within this factor of the fastest one are tried with offload.
constexpr double kNearlyAsFast = 1.05;

Choices chunked(const Scene& scene, Choices choices) {
  choices.solver = scene.question.solver;
  choices.splits_backward = false;
  choices.group = 1;
  choices.updates = program::UpdatePlace::kAtEnd;
  choices.update_window = scene.question.update_window;
  choices.more.clear();
  choices.cut.reset();
  choices.chunks = kSearchedChunks;
  return choices;
}

bool is_chunked(const Judged& judged) {
  return judged.choices.chunks != kNoChunks;
}

/// With all optimizer state offloaded: the fastest named schedules, which are quickly planned, and
/// if any is then faster than what was tried, searched orders; those at once where nothing fits
/// without.
std::vector<Choices> with_state_offloaded(const Scene& scene, const Judged& tried) {
  Choices offloaded = tried.choices;
  offloaded.optimizer_copies = kAnyTime;
  if (tried.plan() == nullptr) return {std::move(offloaded)};
  const std::map<std::string, Seconds> steps = named_steps(*tried.plan());
  const auto fastest = std::min_element(
      steps.begin(), steps.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  std::vector<Choices> quick;
  bool helps = false;
  for (const auto& [schedule, step] : steps) {
    if (step > fastest->second * kNearlyAsFast) continue;
    Choices choices = offloaded;
    choices.chunks = schedule;
    const Judged* const judged = scene.log.find(choices);
    helps = helps || (judged != nullptr && judged->step() < tried.step());
    if (judged == nullptr) quick.push_back(std::move(choices));
  }
  if (!quick.empty() || !helps) return quick;
  return {std::move(offloaded)};
}

/// The best choices and the plainest with several chunks on every rank, whose order leaves room
/// that offload would make. Where that recomputes or copies, offload is tried next.
std::vector<Choices> moves(const Scene& scene) {
  std::vector<Choices> found{chunked(scene, scene.best.choices),
                             chunked(scene, plainest(scene.question))};
  if (!scene.log.is_settled(found.front()) && !is_chunked(scene.best)) return found;
  const Judged* const tried = scene.log.best_where([](const Judged& one) {
    return one.choices.chunks == kSearchedChunks && one.choices.optimizer_copies != kAnyTime;
  });
  if (tried == nullptr || !kOptimizerState.is_open(scene.question) ||
      has_no_use_for_memory(scene.question, *tried))
    return {};
  return with_state_offloaded(scene, *tried);
}

}  // namespace

std::map<std::string, Seconds> named_steps(const plan::Plan& plan) {
  std::map<std::string, Seconds> steps;
  for (const plan::Alternative& other : plan.alternatives)
    if (other.step) steps[other.policy] = *other.step;
  steps[plan.schedule] = plan.step;
  std::erase_if(steps,
                [](const auto& one) { return schedule::find_schedule(one.first) == nullptr; });
  return steps;
}

bool has_no_use_for_memory(const Question& question, const Judged& judged) {
  if (judged.plan() == nullptr) return false;
  const plan::Plan& plan = *judged.plan();
  return plan.step <= ideal_step(question) * kNearIdeal ||
         (keeps_everything(plan) && plan.order_bound >= plan.step);
}

const Axis kChunks{.name = "chunks",
                   .without = "one chunk on every rank",
                   .is_open =
                       [](const Question& question) {
                         return question.chunks == kSearchedChunks && question.stages > 1 &&
                                (question.solver == "auto" || question.solver == "joint") &&
                                question.schedule == "1f1b" && !question.cut &&
                                question.in_flight.empty() && question.group.value_or(1) == 1 &&
                                !question.quick && !is_large(question) &&
                                question.updates.value_or(program::UpdatePlace::kAtEnd) ==
                                    program::UpdatePlace::kAtEnd;
                       },
                   .moves = moves,
                   .is_used = is_chunked,
                   .most_looks = 3,
                   .most_looks_at_large = 1,
                   .least_gain = kLeastGain,
                   .reason =
                       "passes of chunks are shorter, and chunks of a rank wait for one "
                       "another where times differ",
                   .beats_ideal = true};

}  // namespace trireme::partition
