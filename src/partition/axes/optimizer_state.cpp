// Optimizer state offload: between updates, state is on the device or in the offload tier, from
// where it is copied in parts when a step ends, and back.
//
// Offloaded bytes make room for every micro-batch and cost one copy each way per step. All ranks
// copy at the same time, so a step pays for the longest copy: within a time budget, every rank may
// offload what it can copy in it. That time is the one number to choose.
// SPDX-License-Identifier: Apache-2.0
#include "axis.h"
#include "judge/judge.h"
#include "memory/offload.h"

namespace trireme::partition {
namespace {

/// Least difference in copy time worth trying, as a share of a step.
constexpr double kFinest = 0.005;

std::vector<Choices> moves(const Scene& scene) {
  const bool has_plan = scene.best.plan() != nullptr;
  return along(
      {.low = 0,
       .high = kAnyTime.count(),
       .finest = has_plan ? scene.best.step().count() * kFinest : 0,
       .at =
           [&](double number) {
             Choices choices = scene.best.choices;
             choices.optimizer_copies = Seconds(number);
             return choices;
           },
       .asked = [](const Choices& choices) { return choices.optimizer_copies.count(); },
       .position =
           [&](const Judged& judged) { return copies_of(scene.question, *judged.plan()).count(); }},
      scene);
}

}  // namespace

const Axis kOptimizerState{.name = "optimizer state in the offload tier",
                           .without = "optimizer state on the device",
                           .is_open =
                               [](const Question& question) {
                                 return !question.optimizer_copies && some_can_move_state(question);
                               },
                           .moves = moves,
                           .is_used =
                               [](const Judged& judged) {
                                 return judged.plan() != nullptr
                                            ? has_offloaded_state(*judged.plan())
                                            : judged.choices.optimizer_copies > Seconds(0);
                               },
                           .most_looks = 7,
                           .most_looks_at_large = 3,
                           .least_gain = 0,
                           .reason = "the simulator counts every copy"};

}  // namespace trireme::partition
