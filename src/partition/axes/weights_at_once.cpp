// How many streamed layers have their weights on the device at a time: two (one in use, one being
// copied) or three, which hides more of unequal copies and takes room for one layer more.
// SPDX-License-Identifier: Apache-2.0
#include "axis.h"
#include "memory/offload.h"

namespace trireme::partition {
namespace {

constexpr int kMoreAtOnce = 3;

std::vector<Choices> moves(const Scene& scene) {
  if (scene.best.plan() == nullptr || streamed_by(*scene.best.plan()).empty()) return {};
  Choices other = scene.best.choices;
  const bool has_more = other.weights_at_once == kMoreAtOnce;
  other.weights_at_once = has_more ? program::kLeastAtOnce : kMoreAtOnce;
  std::vector<Choices> found{tidy(scene.question, other)};
  if (!has_more &&
      !scene.question.streamed) {  // with less room, more layers may have to be streamed
    other.streamed = all_to_stream(scene.question.chain);
    found.push_back(tidy(scene.question, std::move(other)));
  }
  return found;
}

}  // namespace

const Axis kWeightsAtOnce{
    .name = "streamed layers on the device",
    .without = "weights of two layers at a time",
    .is_open =
        [](const Question& question) {
          return !question.weights_at_once && !streamable(question).empty();
        },
    .moves = moves,
    .is_used =
        [](const Judged& judged) { return judged.choices.weights_at_once > program::kLeastAtOnce; },
    .most_looks = 1,
    .most_looks_at_large = 0,
    .least_gain = 0,
    .reason = "the same bytes are copied either way"};

}  // namespace trireme::partition
