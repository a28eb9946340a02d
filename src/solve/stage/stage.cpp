// The stage solver: choice of tables for each question, and replay as the final judge.
//
// SPDX-License-Identifier: Apache-2.0
#include "trireme/solve/stage.h"

#include "copies/copies.h"
#include "judge/judge.h"
#include "lean_stages.h"
#include "stage_copies.h"
#include "stage_levels.h"
#include "stage_tables.h"
#include "tables/more_slots.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/program/generate.h"
#include "trireme/program/retape.h"
#include "trireme/simulate/replay.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <optional>
#include <utility>

namespace trireme::solve {
namespace {

// Amounts of moved bytes that are planned for.
constexpr int kMoves = 32;
// Layers up to which the search for copies with one in flight is quick, and its slots.
constexpr int kMostAlone = 8, kSlotsAlone = 100;

int checked(int slots) {
  if (slots >= 0 && slots <= StageLevels::kMostExact) return slots;
  throw InputError(concat("slots: found ", slots, ", expected 0 (exact) or 1..",
                          StageLevels::kMostExact, ", e.g. 500"));
}

StageSolution solution(program::StageProgram program, const simulate::Replay& replay, Bytes peak) {
  return {.program = std::move(program),
          .forward = replay.forward,
          .backward = replay.backward,
          .recompute = replay.recompute,
          .kept = replay.kept,
          .peak = peak,
          .moved = replay.moved};
}

// The fastest program that fits, by replay.
class Found {
 public:
  Found(const chain::Chain& chain, const StageProblem& problem)
      : chain_(chain), problem_(problem) {}

  bool offer(program::StageProgram program);
  /// Offers the tables' program; unless `exact` (tables count as replay does), also programs for
  /// more memory.
  void offer_best(StageTables& tables, bool exact);
  std::optional<StageSolution> best;

 private:
  const chain::Chain& chain_;
  const StageProblem& problem_;
};

}  // namespace

struct StageSolver::Impl {
  Impl(const chain::Chain& asked, const Options& wanted);

  Seconds least_time(const StageProblem& problem);
  std::variant<StageSolution, plan::Infeasible> solve(const StageProblem& problem);
  void offer_by_tables(const StageProblem& problem, Found& found);
  void offer_copies(const StageProblem& problem, std::optional<StageSolution>& best);
  void offer_copies_alone(const StageProblem& problem, std::optional<StageSolution>& best);
  plan::Infeasible infeasible(const StageProblem& problem);
  void require_known(const StageProblem& problem) const;

  Freedom freedom() const {
    return options.input_may_leave ? Freedom::kInputMayLeave : Freedom::kInputStays;
  }
  LeanStages& leanest() {
    if (!lean) lean = std::make_unique<LeanStages>(chain, freedom());
    return *lean;
  }

  chain::Chain chain;
  Options options;
  std::mutex mutex;  ///< guards the tables
  StageLevels levels;
  std::unique_ptr<LeanStages> lean;
};

StageSolver::StageSolver(const chain::Chain& chain, const Options& options)
    : impl_(std::make_unique<Impl>(chain, options)) {}

StageSolver::~StageSolver() = default;

Seconds StageSolver::least_time(const StageProblem& problem) {
  return impl_->least_time(problem);
}

std::variant<StageSolution, plan::Infeasible> StageSolver::solve(const StageProblem& problem) {
  return impl_->solve(problem);
}

Bytes StageSolver::least_memory(chain::LayerRange layers, int in_flight) {
  impl_->require_known({.layers = layers, .memory = {}, .in_flight = in_flight, .link = {}});
  const std::lock_guard lock(impl_->mutex);
  return impl_->leanest().least_memory(layers, in_flight);
}

std::size_t StageSolver::size() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->levels.size();
}

StageSolver::Impl::Impl(const chain::Chain& asked, const Options& wanted)
    : chain(asked),
      options(wanted),
      levels(chain, options.largest_memory, checked(options.slots), freedom()) {}

void StageSolver::Impl::require_known(const StageProblem& problem) const {
  const auto [first, last] = problem.layers;
  ensure(first >= 1 && first <= last && last <= chain.length(),
         "a stage's layers lie in its chain");
  ensure(problem.in_flight >= 1, "a stage has at least one micro-batch in flight");
  ensure(problem.memory <= options.largest_memory, "the stage solver was made for less memory");
}

Seconds StageSolver::Impl::least_time(const StageProblem& problem) {
  require_known(problem);
  const chain::LayerRange layers = problem.layers;
  const int w = problem.in_flight;
  constexpr Seconds kNeverRuns(std::numeric_limits<double>::infinity());
  if (problem.memory < w * chain.output(layers.first - 1)) return kNeverRuns;
  const std::lock_guard lock(mutex);
  StageTables& tables = levels.of(layers.size(), w);
  const auto choice = tables.best(layers, w, tables.available(layers.first, w, problem.memory));
  const Seconds work = tables.costs().work(layers.first, layers.last);
  if (std::isfinite(choice.extra)) return work + Seconds(choice.extra);
  if (leanest().least_memory(layers, w) > problem.memory) return kNeverRuns;
  return work + leanest().recompute(layers, w);
}

std::variant<StageSolution, plan::Infeasible> StageSolver::Impl::solve(
    const StageProblem& problem) {
  require_known(problem);
  Found found(chain, problem);
  offer_by_tables(problem, found);
  if (can_copy(problem.link)) offer_copies(problem, found.best);
  if (found.best) return *std::move(found.best);
  return infeasible(problem);
}

void StageSolver::Impl::offer_by_tables(const StageProblem& problem, Found& found) {
  const chain::LayerRange layers = problem.layers;
  const int w = problem.in_flight;
  const std::lock_guard lock(mutex);
  if (leanest().least_memory(layers, w) <= problem.memory) {
    found.offer_best(levels.of(layers.size(), w), levels.exact());
    StageTables* const own = problem.quick ? nullptr : levels.finer(layers, w, problem.memory);
    if (own) found.offer_best(*own, levels.exact());
    // Where it fits in no slots, a program for more slots that happens to fit may be slower.
    found.offer(leanest().leanest(layers, w));
  }
}

// Offers programs that fit when a given amount of what each micro-batch keeps takes no device
// memory, for several amounts. In fact it does while it is copied, so more items must leave than
// were planned for.
void StageSolver::Impl::offer_copies(const StageProblem& problem,
                                     std::optional<StageSolution>& best) {
  const chain::LayerRange layers = problem.layers;
  const int w = problem.in_flight;
  if (w == 1) offer_copies_alone(problem, best);
  StageCopies copies(chain, problem);
  if (best) copies.bound = best->time();
  // Independent of slots: in a long stage a tape may be smaller than a slot.
  copies.offer(program::keep_all(layers.first, layers.last));
  if (best && best->moved == Bytes(0)) copies.offer(best->program);
  Bytes tapes;
  for (int i = layers.first; i <= layers.last; ++i) tapes += chain.layer(i).tape;
  const Bytes most = std::min(copies.most_moved(), chain.output(layers.first - 1) + tapes);
  if (most <= Bytes(0) || problem.memory <= Bytes(0)) return;
  const Bytes largest = problem.memory + w * most;
  const auto tables = levels.alone(layers, w, largest);
  const auto plan_for = [&](Bytes moved) {
    const Slots room = tables->available(layers.first, w, problem.memory + w * moved);
    const auto choice = tables->best(layers, w, room);
    if (!std::isfinite(choice.extra)) return;
    const Seconds least = tables->costs().work(layers.first, layers.last) + Seconds(choice.extra);
    if (least < copies.bound) copies.offer(tables->rebuilt(layers, choice));
  };
  // Equal steps, and small ones where little is moved.
  for (int k = 1; k <= kMoves; ++k) {
    plan_for(most * k / kMoves);
    plan_for(most * (k * k) / (kMoves * kMoves));
  }
  auto found = copies.best();
  if (found && (!best || found->time() < best->time())) best = std::move(found);
}

// With one in flight there is no pause: the single-stage solver for copies, where it is quick.
void StageSolver::Impl::offer_copies_alone(const StageProblem& problem,
                                           std::optional<StageSolution>& best) {
  if (problem.layers.size() > kMostAlone) return;
  const Problem alone{.chain = &chain,
                      .first_layer = problem.layers.first,
                      .last_layer = problem.layers.last,
                      .budget = problem.memory,
                      .link = problem.link,
                      .slots = kSlotsAlone};
  const Result result = with_what_stays(alone, options.input_may_leave ? "free" : "", solve_pofo);
  const auto* found = std::get_if<Solution>(&result);
  if (found == nullptr || (best && best->time() <= found->time)) return;
  const simulate::Replay replay = simulate::replay(
      chain, found->program,
      {.out = problem.link->out, .in = problem.link->in, .budget = problem.memory});
  best = solution(found->program, replay, replay.peak);
}

// Exact: by replay of the leanest program.
plan::Infeasible StageSolver::Impl::infeasible(const StageProblem& problem) {
  const chain::LayerRange layers = problem.layers;
  const int w = problem.in_flight;
  const Problem alone{.chain = &chain,
                      .first_layer = layers.first,
                      .last_layer = layers.last,
                      .budget = problem.memory,
                      .link = {},
                      .slots = 0};
  const program::StageProgram program = [&] {
    const std::lock_guard lock(mutex);
    return leanest().leanest(layers, w);
  }();
  plan::Infeasible result = solve::infeasible(alone, program);
  result.needed += (w - 1) * judged(alone, program).kept;
  result.least_budget = result.needed;
  return result;
}

namespace {

bool Found::offer(program::StageProgram program) {
  program = program::with_retapes(std::move(program), chain_);
  const simulate::Replay replay = simulate::replay(chain_, program);
  if (replay.fault) {
    throw LogicError(concat("a stage's program cannot run: ", simulate::to_text(*replay.fault)));
  }
  const Bytes peak = (problem_.in_flight - 1) * replay.kept + replay.peak;
  if (peak > problem_.memory) return false;
  if (!best || replay.time < best->time()) best = solution(std::move(program), replay, peak);
  return true;
}

// Kept sizes, which count w times, were rounded up by less than a slot each.
void Found::offer_best(StageTables& tables, bool exact) {
  const chain::LayerRange layers = problem_.layers;
  const int w = problem_.in_flight;
  const Slots available = tables.available(layers.first, w, problem_.memory);
  if (available < 0) return;
  StageTables::Choice reached = tables.best(layers, w, available);
  if (std::isfinite(reached.extra)) {
    const bool fits = offer(tables.rebuilt(layers, reached));
    ensure(fits, "a program that fits in slots fits in bytes");
  }
  if (exact) return;
  const Slots waste = available / 8 + w * layers.size();
  try_more_slots(available, std::min<Slots>(tables.top(), available + waste), [&](Slots m) {
    const StageTables::Choice choice = tables.best(layers, w, m);
    if (!(choice.extra < reached.extra)) return true;
    if (!offer(tables.rebuilt(layers, choice))) return false;
    reached = choice;
    return true;
  });
}

}  // namespace
}  // namespace trireme::solve
