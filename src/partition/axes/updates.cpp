// When layers are updated whose trained weights are streamed: among the passes, where their weights
// are on the device anyway, or all at the end of a step. And how much of the optimizer's state is
// on its way at a time, where the usual window leaves too little room.
// SPDX-License-Identifier: Apache-2.0
#include "axis.h"
#include "memory/offload.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace trireme::partition {
namespace {

using program::UpdatePlace;

/// Parts of the usual window that are tried where it leaves too little room, one after the other.
constexpr std::array kSmallerWindows{4, 16};

std::optional<Choices> with_smaller_window(const Scene& scene) {
  const Question& question = scene.question;
  Choices choices = scene.best.choices;
  if (scene.best.plan() != nullptr || choices.updates == UpdatePlace::kAtEnd ||
      question.update_window)
    return std::nullopt;
  choices.update_window.reset();
  const Bytes usual = update_window(settled(question, choices));
  for (const int part : kSmallerWindows) {
    choices.update_window = std::max(least_window(question.chain), usual / part);
    if (!scene.log.is_settled(choices)) return choices;
  }
  return std::nullopt;
}

std::vector<Choices> moves(const Scene& scene) {
  const Question& question = scene.question;
  const Choices& now = scene.best.choices;
  if (now.streamed.empty()) return {};
  std::vector<Choices> found;
  if (auto smaller = with_smaller_window(scene)) found.push_back(*std::move(smaller));
  if (!question.updates) {
    found.push_back(now);
    found.back().updates =
        now.updates == UpdatePlace::kAtEnd ? updates_among_passes(question) : UpdatePlace::kAtEnd;
    found.back().update_window = question.update_window;
  }
  return found;
}

}  // namespace

const Axis kUpdates{
    .name = "updates among the passes",
    .without = "updates at the end of a step",
    .is_open =
        [](const Question& question) {
          return updates_among_passes(question) != UpdatePlace::kAtEnd &&
                 (!question.updates || !question.update_window);
        },
    .moves = moves,
    .is_used = [](const Judged& judged) { return judged.choices.updates != UpdatePlace::kAtEnd; },
    .most_looks = 2,
    .most_looks_at_large = 2,
    .least_gain = 0,
    .reason = "the simulator knows every update"};

}  // namespace trireme::partition
