// SPDX-License-Identifier: Apache-2.0
#include "update_window.h"

#include "state_away.h"
#include "streamed_layers.h"

#include <algorithm>

namespace trireme::partition {
namespace {

using program::UpdatePlace;

/// State on its way is no more than such a part of what the largest layer has.
constexpr int kPartOfLayer = 4;

}  // namespace

Bytes least_window(const chain::Chain& chain) {
  return chain.state_line * chain::kLeastParts;
}

Bytes update_window(const Question& question) {
  if (question.update_window) return *question.update_window;
  Bytes largest;
  for (const int layer : all_to_stream(question.chain))
    largest = std::max(largest, question.chain.layer(layer).optimizer);
  return std::max(least_window(question.chain),
                  std::min(chain::kLargestStateWindow, largest / kPartOfLayer));
}

Bytes update_window(const Question& question, int rank, const LayerRuns& runs) {
  const UpdatePlace place = question.updates.value_or(UpdatePlace::kAtEnd);
  if (place == UpdatePlace::kAtEnd || runs.size() != 1) return Bytes(0);
  const std::vector<int> updated =
      program::updated_layers(streamed_of(question, rank, runs), place,
                              question.weights_at_once.value_or(program::kLeastAtOnce));
  const bool has_state = !updated.empty() && optimizer_away(question, rank, runs) > Bytes(0);
  return has_state ? update_window(question) : Bytes(0);
}

}  // namespace trireme::partition
