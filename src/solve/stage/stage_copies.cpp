// Choice of the kept items to offload, judged by the simulator.
//
// SPDX-License-Identifier: Apache-2.0
#include "stage_copies.h"

#include "trireme/chain/platform.h"
#include "trireme/core/error.h"
#include "trireme/program/generate.h"
#include "trireme/schedule/named.h"
#include "trireme/simulate/simulate.h"

#include <algorithm>
#include <utility>

namespace trireme::solve {
namespace {

using program::StageProgram;

// Micro-batches beyond those in flight, for the second of two runs whose difference is the period.
constexpr int kPeriods = 6;
// Numbers of items beyond the needed ones that are tried.
constexpr std::size_t kMore = 3;
// Programs with which other sets of items are tried, how far from the best they may be, and how
// many sets.
constexpr std::size_t kCandidates = 4;
constexpr double kNearly = 1.03;
constexpr int kTries = 64;

/// The first of low..high - 1 for which `holds` is true, as it is for all after it; or high. By
/// bisection.
template <class Holds>
std::size_t first_where(std::size_t low, std::size_t high, const Holds& holds) {
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (holds(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

}  // namespace

std::optional<StageSolution> with_kept_moved(const chain::Chain& chain, const StageProblem& problem,
                                             const program::StageProgram& program) {
  StageCopies copies(chain, problem);
  copies.offer(program);
  return copies.best();
}

StageCopies::StageCopies(const chain::Chain& chain, const StageProblem& problem)
    : problem_(problem), with_loss_(problem.layers.last == chain.length()) {
  ensure(problem.link.has_value(), "copies of a stage need a link");
  alone_.input = chain.output(problem.layers.first - 1);
  for (int i = problem.layers.first; i <= problem.layers.last; ++i) {
    alone_.layers.push_back(chain.layer(i));
  }
  if (!with_loss_) alone_.layers.emplace_back();
}

void StageCopies::offer(const StageProgram& program) {
  if (std::find(offered_.begin(), offered_.end(), program) != offered_.end()) return;
  offered_.push_back(program);
  const Program studied = this->studied(program);
  if (studied.forward + studied.backward >= kNearly * bound) return;
  const std::size_t low = least_number(studied);
  std::optional<Candidate> found;
  const std::size_t most = std::min(studied.items.size(), low + kMore);
  for (std::size_t count = std::max<std::size_t>(low, 1); count <= most; ++count) {
    Moved moved = earliest(studied, count);
    const Seconds below = found ? found->solution.time() : kNearly * bound;
    if (auto solution = judged(studied, moved, below)) {
      found = Candidate{studied, std::move(moved), *std::move(solution)};
    }
  }
  if (!found) return;
  bound = std::min(bound, found->solution.time());
  const auto place = std::upper_bound(
      candidates_.begin(), candidates_.end(), found->solution.time(),
      [](Seconds time, const Candidate& other) { return time < other.solution.time(); });
  candidates_.insert(place, *std::move(found));
  if (candidates_.size() > kCandidates) candidates_.pop_back();
}

// Bisection for the least number that may fit, then one by one: mostly that number fits.
std::size_t StageCopies::least_number(const Program& program) const {
  const std::size_t all = program.items.size();
  const auto may = [&](std::size_t count) { return may_fit(program, earliest(program, count)); };
  const auto fits = [&](std::size_t count) {
    const auto found = run(with_copies(program, earliest(program, count)), problem_.in_flight + 2);
    return found && found->peak <= problem_.memory;
  };
  const std::size_t least = first_where(0, all, may);
  return least == all || fits(least) ? least : first_where(least + 1, all, fits);
}

std::optional<StageSolution> StageCopies::best() {
  std::optional<StageSolution> best;
  for (Candidate& candidate : candidates_) {
    improve(candidate);
    if (!best || candidate.solution.time() < best->time()) best = std::move(candidate.solution);
  }
  candidates_.clear();
  offered_.clear();
  return best;
}

// Changes items one by one while that helps.
void StageCopies::improve(Candidate& candidate) const {
  int tries = kTries;
  for (bool better = true; better && tries > 0;) {
    better = false;
    for (std::size_t k = 0; k < candidate.moved.size() && tries > 0; ++k, --tries) {
      Moved moved = candidate.moved;
      moved[k] = !moved[k];
      auto solution = judged(candidate.program, moved, candidate.solution.time());
      if (!solution) continue;
      candidate.moved = std::move(moved);
      candidate.solution = *std::move(solution);
      better = true;
    }
  }
}

StageCopies::Moved StageCopies::earliest(const Program& program, std::size_t count) {
  Moved moved(program.items.size(), false);
  std::fill_n(moved.begin(), count, true);
  return moved;
}

Bytes StageCopies::bytes_of(const Program& program, const Moved& moved) {
  Bytes bytes;
  for (std::size_t k = 0; k < moved.size(); ++k) {
    if (moved[k]) bytes += program.items[k].size;
  }
  return bytes;
}

Bytes StageCopies::most_moved() const {
  const double rate = std::min(problem_.link->out.count(), problem_.link->in.count());
  const double most = rate * bound.count();
  return std::min(problem_.link->capacity, Bytes(static_cast<std::int64_t>(std::min(most, 4e18))));
}

std::optional<StageSolution> StageCopies::judged(const Program& program, const Moved& moved,
                                                 Seconds below) const {
  const Bytes bytes = bytes_of(program, moved);
  if (bytes == Bytes(0)) return std::nullopt;
  const Seconds busy = program.forward + program.backward;
  const Seconds least = std::max({busy, bytes / problem_.link->out, bytes / problem_.link->in});
  if (least >= below || !may_fit(program, moved)) return std::nullopt;
  const auto fits = [this](const std::optional<SimulatedRun>& run) {
    return run && run->peak <= problem_.memory && run->offloaded <= problem_.link->capacity;
  };
  const StageProgram made = with_copies(program, moved);
  const int few = problem_.in_flight + 2;
  const std::optional<SimulatedRun> some = run(made, few);
  if (!fits(some)) return std::nullopt;
  const std::optional<SimulatedRun> more = run(made, few + kPeriods);
  if (!fits(more)) return std::nullopt;
  const Seconds period = std::max(least, (more->step - some->step) / kPeriods);
  if (period >= below) return std::nullopt;
  return StageSolution{.program = program::moved_to(made, problem_.layers.first),
                       .forward = program.forward,
                       .backward = period - program.forward,
                       .recompute = program.recompute,
                       .kept = program.kept - bytes,
                       .peak = more->peak,
                       .moved = bytes};
}

std::optional<StageCopies::SimulatedRun> StageCopies::run(const StageProgram& program,
                                                          int micro_batches) const {
  std::vector<StageProgram> stages{program};
  std::vector<int> in_flight{problem_.in_flight};
  if (!with_loss_) {
    const int end = alone_.length();
    stages.push_back(program::keep_all(end, end));
    in_flight.push_back(1);
  }
  const program::Lowering lowering{.stages = std::move(stages),
                                   .order = schedule::one_f_one_b_with(in_flight, micro_batches),
                                   .end = program::StepEnd::kNone};
  chain::Platform platform = chain::uniform_platform(with_loss_ ? 1 : 2, Bytes(0));
  chain::RankSpec& rank = platform.ranks.front();
  rank.memory = problem_.memory;
  rank.host = problem_.link->capacity;
  rank.out = problem_.link->out;
  rank.in = problem_.link->in;
  // The neighbour stands for all stages after this one: their streams take all that is in flight.
  const simulate::Setting setting{.chain = &alone_,
                                  .platform = &platform,
                                  .static_bytes = {},
                                  .channel_capacity = problem_.in_flight + 1};
  const simulate::Simulation result =
      simulate::simulate(program::lower(lowering), setting, simulate::Detail::kFigures);
  if (result.fault) {
    throw LogicError("a stage with copies cannot run: " + simulate::to_text(*result.fault));
  }
  const simulate::RankResult& first = result.ranks.front();
  return SimulatedRun{
      .step = first.end, .peak = first.peak.size, .offloaded = first.offloaded.all()};
}

}  // namespace trireme::solve
