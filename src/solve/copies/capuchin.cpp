// Capuchin (Peng et al. 2020, ASPLOS), the greedy baseline: tensors whose copies out and back are
// hidden by the layers between their two uses are swapped first, those with the longest such time
// before the others; when no swap is hidden any more, the swap or recomputation that saves most
// bytes per added second is done. Replay measures what is hidden and what is added.
//
// SPDX-License-Identifier: Apache-2.0
#include "copies.h"
#include "copy_program.h"
#include "judge/judge.h"

#include "trireme/core/error.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace trireme::solve {
namespace {

using program::Op;

// Times that differ by less are the same: sums in another order.
constexpr double kSame = 1e-9;
// Candidates of each kind that are measured before one is taken.
constexpr std::size_t kMeasured = 16;

// Which layers are recomputed and which tensors are swapped. Both by layer, from the one before the
// first on; `swapped` means whatever is kept of the layer, its tape or its output.
struct Policy {
  std::vector<bool> recomputed, swapped;
};

class Capuchin {
 public:
  explicit Capuchin(const Problem& problem);
  Result run();

 private:
  struct State {
    Policy policy;
    Bytes needed;
    double time = 0;         // with as much memory as is needed
    std::int64_t rests = 0;  // bytes kept on the device throughout
  };

  struct Candidate {
    double rank;
    int layer;
    bool recompute;
  };

  State evaluated(Policy policy) const;
  std::optional<State> hidden_swap(const State& state) const;
  std::optional<State> best_saving(const State& state) const;
  State with(const State& state, const Candidate& candidate) const;
  bool can_swap(const Policy& policy, int i) const;
  bool can_recompute(const Policy& policy, int i) const;
  static void keep_first(std::vector<Candidate>& candidates);
  double free_time(const Policy& policy, int i) const;
  std::vector<CopyPart> parts(const Policy& policy) const;

  // Whether anything of i is kept: its tape, or x[i] as the input of the next layer.
  bool is_kept(const Policy& policy, int i) const {
    return !policy.recomputed[at(i)] || !policy.recomputed[at(i + 1)];
  }
  Bytes size(const Policy& policy, int i) const {
    return i < first_ || policy.recomputed[at(i)] ? chain_.output(i) : chain_.layer(i).tape;
  }
  // The last layer that is recomputed together with i.
  int end_of_run(const Policy& policy, int i) const {
    while (policy.recomputed[at(i)] && policy.recomputed[at(i + 1)]) ++i;
    return i;
  }
  std::size_t at(int i) const { return static_cast<std::size_t>(i - before_); }

  const Problem& problem_;
  const chain::Chain& chain_;
  int first_, last_, before_;
};

}  // namespace

Result solve_capuchin(const Problem& problem, std::string_view argument) {
  if (!argument.empty()) refuse_argument("capuchin", argument);
  return Capuchin(problem).run();
}

namespace {

Capuchin::Capuchin(const Problem& problem)
    : problem_(problem),
      chain_(*problem.chain),
      first_(problem.first_layer),
      last_(problem.last_layer),
      before_(first_ - 1) {}

Result Capuchin::run() {
  const std::vector<bool> none(at(last_) + 1, false);
  State state = evaluated({none, none});
  State leanest = state;
  while (state.needed > problem_.budget) {
    std::optional<State> next = hidden_swap(state);
    if (!next) next = best_saving(state);
    if (!next) return infeasible_with_copies(problem_, parts(leanest.policy));
    state = *std::move(next);
    if (state.needed < leanest.needed) leanest = state;
  }
  std::optional<Solution> solution =
      judged_with_copies(problem_, copy_program(problem_, parts(state.policy)).program);
  ensure(solution.has_value(), "what fits with all copies instant fits with any");
  return *std::move(solution);
}

// Judged with as much memory as it needs, so that what is decided does not depend on the budget.
Capuchin::State Capuchin::evaluated(Policy policy) const {
  State state{.policy = std::move(policy), .needed = {}};
  Problem roomy = problem_;
  roomy.budget = Bytes(0);
  CopyProgram made = copy_program(roomy, parts(state.policy));
  state.needed = roomy.budget = made.needed;
  const auto solution = judged_with_copies(roomy, std::move(made.program));
  state.time = solution ? solution->time.count() : std::numeric_limits<double>::infinity();
  for (int i = before_; i < last_; ++i) {
    if (is_kept(state.policy, i) && !state.policy.swapped[at(i)]) {
      state.rests += size(state.policy, i).count();
    }
  }
  return state;
}

// The swap with the longest free time that adds no time.
std::optional<Capuchin::State> Capuchin::hidden_swap(const State& state) const {
  std::vector<Candidate> candidates;
  for (int i = before_; i < last_; ++i) {
    if (!can_swap(state.policy, i)) continue;
    const double free = free_time(state.policy, i);
    if (free >= 0) candidates.push_back({free, i, false});
  }
  keep_first(candidates);
  for (const Candidate& candidate : candidates) {
    State next = with(state, candidate);
    if (next.time <= state.time * (1 + kSame)) return next;
  }
  return std::nullopt;
}

// Most bytes saved per second added, measured for those that promise most.
std::optional<Capuchin::State> Capuchin::best_saving(const State& state) const {
  const double instant = kSame * state.time;
  std::vector<Candidate> candidates, again;
  for (int i = before_; i < last_; ++i) {
    const double bytes = static_cast<double>(size(state.policy, i).count());
    if (can_swap(state.policy, i)) {
      candidates.push_back({bytes / std::max(-free_time(state.policy, i), instant), i, false});
    }
    if (can_recompute(state.policy, i)) {
      const bool output_stays = !state.policy.recomputed[at(i + 1)];
      const Bytes output = output_stays ? chain_.output(i) : Bytes(0);
      again.push_back({(bytes - static_cast<double>(output.count())) /
                           std::max(chain_.layer(i).forward.count(), instant),
                       i, true});
    }
  }
  keep_first(candidates);
  keep_first(again);
  candidates.insert(candidates.end(), again.begin(), again.end());
  std::optional<State> best;
  double most = 0;
  for (const Candidate& candidate : candidates) {
    State next = with(state, candidate);
    if (std::isinf(next.time)) continue;
    const double added = std::max(next.time - state.time, instant);
    const double rate = static_cast<double>(state.rests - next.rests) / added;
    if (rate <= most) continue;
    most = rate;
    best = std::move(next);
  }
  return best;
}

void Capuchin::keep_first(std::vector<Candidate>& candidates) {
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.rank > b.rank; });
  if (candidates.size() > kMeasured) candidates.resize(kMeasured);
}

Capuchin::State Capuchin::with(const State& state, const Candidate& candidate) const {
  Policy policy = state.policy;
  (candidate.recompute ? policy.recomputed : policy.swapped)[at(candidate.layer)] = true;
  return evaluated(std::move(policy));
}

bool Capuchin::can_recompute(const Policy& policy, int i) const {
  return i >= first_ && !policy.recomputed[at(i)] && !policy.swapped[at(i)];
}

// The input of the last layer would have to come back at once.
bool Capuchin::can_swap(const Policy& policy, int i) const {
  return can_copy(problem_.link) && i < last_ - 1 && is_kept(policy, i) && !policy.swapped[at(i)] &&
         size(policy, i).count() > 0;
}

// Seconds from the last forward use of what is kept of i to its first backward use, less the time
// of its copies out and back.
double Capuchin::free_time(const Policy& policy, int i) const {
  Seconds free = -(size(policy, i) / problem_.link->out) - size(policy, i) / problem_.link->in;
  const int used_until = end_of_run(policy, i + 1);
  for (int k = i + 2; k <= last_; ++k) free += chain_.layer(k).forward;
  for (int k = used_until + 1; k <= last_; ++k) {
    free += chain_.layer(k).backward;
    if (policy.recomputed[at(k)]) free += chain_.layer(k).forward;
  }
  return free.count();
}

std::vector<CopyPart> Capuchin::parts(const Policy& policy) const {
  std::vector<CopyPart> parts;
  for (int i = first_; i <= last_;) {
    const bool again = policy.recomputed[at(i)];
    const int end = end_of_run(policy, i);
    CopyPart part{.first = i,
                  .last = end,
                  .taped = !again,
                  .leaves = policy.swapped[at(i - 1)],
                  .backward = {}};
    for (int k = i; k <= end && again; ++k) part.backward.push_back({Op::kForwardTape, k});
    for (int k = end; k >= i; --k) part.backward.push_back({Op::kBackward, k});
    parts.push_back(std::move(part));
    i = end + 1;
  }
  return parts;
}

}  // namespace
}  // namespace trireme::solve
