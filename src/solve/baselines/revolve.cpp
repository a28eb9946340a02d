// revolve: the schedule follows the recursion of the closed form,
//   T(n,s) = min over k of k + T(n-k, s-1) + T(k, s):
// advance k steps, keep that input, reverse the right part with one slot less, then the left part.
// On a chain of unequal layers many numbers of slots are tried and the fastest that keeps the
// budget is taken: the number of forwards is optimal, the time need not be.
//
// SPDX-License-Identifier: Apache-2.0
#include "trireme/solve/revolve.h"

#include "baselines.h"
#include "judge/judge.h"

#include "trireme/core/error.h"
#include "trireme/plan/plan.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace trireme::solve {
namespace {

using program::Action;
using program::Op;

class Reversal {
 public:
  explicit Reversal(program::StageProgram& program)
      : list_(&program.forward), backward_(&program.backward) {}
  /// Layers whose input is kept, with `slots` for it and others.
  struct Subproblem {
    chain::LayerRange layers;
    int slots = 1;
  };
  void reverse(Subproblem all);

 private:
  void add(Op op, int layer) { list_->push_back({op, layer, 0}); }
  void tape_and_turn(int layer);

  std::vector<Action>* list_;
  std::vector<Action>* backward_;
};

int best_advance(int steps, int slots);
std::vector<int> slots_to_try(int steps);

}  // namespace

Result solve_revolve(const Problem& problem, std::string_view argument) {
  if (!argument.empty()) refuse_argument("revolve", argument);
  const int first = problem.first_layer, last = problem.last_layer;
  std::optional<Solution> fastest;
  std::optional<Solution> leanest;
  for (const int slots : slots_to_try(last - first + 1)) {
    Solution solution = judged(problem, revolve_program({first, last}, slots));
    if (!leanest || solution.peak < leanest->peak) leanest = solution;
    if (solution.peak > problem.budget) continue;
    if (fastest && fastest->time <= solution.time) continue;
    fastest = std::move(solution);
  }
  if (fastest) return *std::move(fastest);
  return infeasible(problem, leanest->program);
}

std::int64_t revolve_forwards(int steps, int slots) {
  ensure(steps >= 1 && slots >= 1, "revolve needs a step and a slot");
  std::int64_t reach = 1, repeats = 0;  // reach = C(slots + repeats, slots)
  while (reach < steps) {
    ++repeats;
    reach = reach * (slots + repeats) / repeats;
  }
  // C(s + r, s + 1) = C(s + r, s) * r / (s + 1)
  return repeats * steps - reach * repeats / (slots + 1);
}

program::StageProgram revolve_program(chain::LayerRange layers, int slots) {
  program::StageProgram program{.first_layer = layers.first, .last_layer = layers.last};
  Reversal(program).reverse({layers, slots});
  return program;
}

namespace {

// What is left to reverse is on an explicit stack: as deep as there are slots, which may be too
// many for a thread's stack.
void Reversal::reverse(Subproblem all) {
  std::vector<Subproblem> left{all};
  while (!left.empty()) {
    const auto [layers, slots] = left.back();
    const auto [first, last] = layers;
    left.pop_back();
    if (first == last) {
      tape_and_turn(first);
      continue;
    }
    const int advance = slots == 1 ? last - first : best_advance(layers.size(), slots);
    for (int i = first; i < first + advance; ++i) {
      add(i == first ? Op::kForwardKeep : Op::kForward, i);
    }
    left.push_back({{first, first + advance - 1}, slots});
    // With one slot the input at the end of the advance is used at once and not kept.
    left.push_back({{first + advance, last}, std::max(1, slots - 1)});
  }
}

void Reversal::tape_and_turn(int layer) {
  add(Op::kForwardTape, layer);
  list_ = backward_;
  add(Op::kBackward, layer);
}

// All numbers of slots on a chain of usual length; on a longer one all small ones, then ever fewer,
// and none whose program is too long for a plan file; a slot for every layer in any case.
std::vector<int> slots_to_try(int steps) {
  constexpr int kUsualLength = 1024, kSmall = 64;
  std::vector<int> tried;
  for (int slots = steps; slots >= 1;
       slots -= steps <= kUsualLength ? 1 : std::max(1, slots / kSmall)) {
    // In addition to these forwards, as many tapes and backwards as there are steps.
    if (slots == steps || revolve_forwards(steps, slots) + 2 * steps <= plan::kMaxActions)
      tried.push_back(slots);
  }
  return tried;
}

// The terms k + T(k,s) + T(n-k,s-1) are convex in k: T is convex in its steps.
int best_advance(int steps, int slots) {
  const auto cost = [&](int k) {
    return k + revolve_forwards(k, slots) + revolve_forwards(steps - k, slots - 1);
  };
  int low = 1, high = steps - 1;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (cost(middle) <= cost(middle + 1)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

}  // namespace
}  // namespace trireme::solve
