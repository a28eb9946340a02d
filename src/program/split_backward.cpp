// SPDX-License-Identifier: Apache-2.0
#include "trireme/program/split_backward.h"

#include "behind.h"

#include <cstddef>

namespace trireme::program {
namespace {

using Actions = std::vector<Action>;

/// The layers of a pass, in the order of their backwards.
std::vector<int> layers_of_pass(const Actions& actions) {
  std::vector<int> layers;
  std::optional<int> micro_batch;  // of the first pass
  for (const Action& action : actions)
    if (action.op == Op::kBackward &&
        micro_batch.value_or(action.micro_batch) == action.micro_batch) {
      micro_batch = action.micro_batch;
      layers.push_back(action.layer);
    }
  return layers;
}

Actions split(const Actions& whole, int passes_behind) {
  const std::vector<int> layers = layers_of_pass(whole);
  Actions actions;
  std::vector<int> waiting;  // micro-batches; those before `made` have their weight gradients
  std::size_t made = 0, pass_ends = 0;
  const auto make_but = [&](int last) {
    for (; made + static_cast<std::size_t>(last) < waiting.size(); ++made)
      for (const int layer : layers)
        actions.push_back({Op::kBackwardWeights, layer, waiting[made]});
  };
  for (std::size_t i = 0; i < whole.size(); ++i) {
    Action action = whole[i];
    if (i == pass_ends) make_but(passes_behind);
    if (ends_step(action.op)) make_but(0);
    if (action.op == Op::kBackward) {
      action.op = Op::kBackwardInput;
      if (action.layer == layers.back()) {
        waiting.push_back(action.micro_batch);
        pass_ends = behind(whole, i);
      }
    }
    actions.push_back(action);
  }
  make_but(0);
  return actions;
}

}  // namespace

Program with_split_backward(Program program, const WeightsBehind& behind) {
  for (std::size_t rank = 0; rank < behind.size(); ++rank)
    if (behind[rank]) program.ranks.at(rank) = split(program.ranks.at(rank), *behind[rank]);
  return program;
}

}  // namespace trireme::program
