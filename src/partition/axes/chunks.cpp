// SPDX-License-Identifier: Apache-2.0
#include "axis.h"
#include "values/effort.h"

#include "trireme/schedule/order.h"

namespace trireme::partition {
namespace {

/// Plans on a CPU that were faster by less by prediction ran slower.
constexpr double kLeastGain = 0.01;

/// The best choices and the plainest with several chunks on every rank, whose order leaves room
/// that offload would make.
std::vector<Choices> moves(const Scene& scene) {
  std::vector<Choices> found;
  for (Choices choices : {scene.best.choices, plainest(scene.question)}) {
    choices.solver = scene.question.solver;
    choices.splits_backward = false;
    choices.group = 1;
    choices.updates = program::UpdatePlace::kAtEnd;
    choices.update_window = scene.question.update_window;
    choices.more.clear();
    choices.cut.reset();
    choices.chunks = kSearchedChunks;
    found.push_back(std::move(choices));
  }
  return found;
}

}  // namespace

const Axis kChunks{
    .name = "chunks",
    .without = "one chunk on every rank",
    .is_open =
        [](const Question& question) {
          return question.chunks == kSearchedChunks && question.stages > 1 &&
                 (question.solver == "auto" || question.solver == "joint") &&
                 question.schedule == "1f1b" && !question.cut && question.in_flight.empty() &&
                 question.group.value_or(1) == 1 && !question.quick && !is_large(question) &&
                 question.updates.value_or(program::UpdatePlace::kAtEnd) ==
                     program::UpdatePlace::kAtEnd;
        },
    .moves = moves,
    .is_used =
        [](const Judged& judged) {
          return judged.plan() != nullptr && judged.choices.chunks == kSearchedChunks;
        },
    .most_looks = 1,
    .most_looks_at_large = 1,
    .least_gain = kLeastGain,
    .reason =
        "passes of chunks are shorter, and chunks of a rank wait for one "
        "another where times differ"};

}  // namespace trireme::partition
