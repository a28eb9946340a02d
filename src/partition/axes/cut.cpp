// Cuts that differ from the best one by a layer. The cut search knows only the times of whole
// passes; the effects of split backwards, of copies of weights and state, and of numbers in flight
// come from the simulator. So the slowest stages give a layer to a neighbour as long as that makes
// the step shorter.
// SPDX-License-Identifier: Apache-2.0
#include "values/cut.h"

#include "axis.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace trireme::partition {
namespace {

/// Slowest stages that try to give a layer to either neighbour.
constexpr std::size_t kSlowest = 3;

std::vector<Choices> moves(const Scene& scene) {
  const plan::Plan* const plan = scene.best.plan();
  if (plan == nullptr || !plan::has_rank_for_each_stage(*plan)) return {};
  Choices base = scene.best.choices;
  base.solver = plan->solver;
  base.cut = cut_of(*plan);
  base.cut->pop_back();
  std::vector<Choices> found;
  std::vector<std::size_t> slowest = slowest_first(*plan);
  slowest.resize(std::min(kSlowest, slowest.size()));
  for (const std::size_t k : slowest) {
    const program::StageProgram& stage = plan->stages[k].program;
    if (stage.first_layer == stage.last_layer) continue;
    if (k > 0) {
      found.push_back(base);
      ++(*found.back().cut)[k - 1];
    }
    if (k + 1 < plan->stages.size()) {
      found.push_back(base);
      --(*found.back().cut)[k];
    }
  }
  return found;
}

}  // namespace

const Axis kCut{.name = "neighbouring cuts",
                .without = "the cut by pass times",
                .is_open =
                    [](const Question& question) {
                      return question.stages > 1 && !question.cut && !question.quick &&
                             question.solver != "madpipe" && !has_named_schedule(question);
                    },
                .moves = moves,
                .is_used = [](const Judged& judged) { return judged.choices.cut.has_value(); },
                .most_looks = 4,
                .most_looks_at_large = 2,
                .least_gain = 1e-3,
                .reason = "layer times are not measured more precisely"};

}  // namespace trireme::partition
