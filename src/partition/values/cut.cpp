// SPDX-License-Identifier: Apache-2.0
#include "cut.h"

#include <algorithm>
#include <numeric>

namespace trireme::partition {

std::optional<Cut> fixed_cut(const Question& question) {
  if (!question.cut) return std::nullopt;
  Cut cut = *question.cut;
  cut.push_back(question.chain.length());
  return cut;
}

Cut cut_of(const plan::Plan& plan) {
  Cut cut;
  for (const plan::StagePlan& stage : plan.stages) cut.push_back(stage.program.last_layer);
  return cut;
}

std::vector<std::size_t> slowest_first(const plan::Plan& plan) {
  std::vector<std::size_t> order(plan.stages.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto time = [&](std::size_t k) {
    return plan.stages[k].predicted.forward + plan.stages[k].predicted.backward;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return time(a) > time(b); });
  return order;
}

Cut equal_cut(int layers, int stages) {
  Cut cut;
  int last = 0;
  for (int k = 0; k < stages; ++k) {
    last += layers / stages + (k < layers % stages ? 1 : 0);
    cut.push_back(last);
  }
  return cut;
}

}  // namespace trireme::partition
