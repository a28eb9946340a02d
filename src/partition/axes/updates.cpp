// Overlapped optimizer step: streamed layers are updated among the passes, while their weights are
// on the device anyway, or all at the end of a step. Also a smaller window for optimizer state on
// its way, where the usual one leaves too little room.
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

/// Divisors of the usual window, tried in this order where it leaves too little room.
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
    .name = "overlapped optimizer step",
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
    .reason = "the simulator counts every update"};

}  // namespace trireme::partition
