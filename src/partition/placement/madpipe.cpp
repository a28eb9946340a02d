// SPDX-License-Identifier: Apache-2.0
#include "madpipe.h"

#include "cut/in_flight.h"
#include "early.h"
#include "judge/judge.h"

#include "trireme/schedule/named.h"
#include "trireme/schedule/slots.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace trireme::partition {
namespace {

/// Number of allocations up to which all are tried.
constexpr double kAll = 2000;
/// Labels that the dynamic program keeps. For few layers x stages it runs with both numbers, since
/// more labels are not always better.
constexpr std::size_t kLabels = 12, kMoreLabels = 24;
constexpr int kFewPlaces = 300;
/// Bisection steps for the least period, and factors of longer periods tried.
constexpr int kBisections = 7;
constexpr double kLonger[] = {1.02, 1.05, 1.1, 1.2};
/// Allocations simulated, and numbers in flight for each.
constexpr std::size_t kBuilt = 12;
constexpr std::size_t kBuiltCounts = 2;
/// Most allocations tried by the local search.
constexpr int kSteps = 200;
/// Candidates estimated to be slower than the best by this factor are not simulated.
constexpr double kHopeless = 1.02;
/// Most extra micro-batches in flight tried beyond those of 1F1B*.
constexpr int kMoreInFlight = 2;
/// Most retries with less memory for a plan over a budget, and with more for one below it.
constexpr int kTightenings = 6;
constexpr int kLoosenings = 3;
/// Memory sizes for which programs of stages that share a rank are made.
constexpr int kLevels = 6;
/// The solver's name in plans.
constexpr const char* kName = "madpipe";

/// Micro-batches in flight, by stage.
using Counts = std::vector<int>;

/// Numbers worth trying: those of 1F1B* for the heaviest rank's load, a few more because stages
/// wait for one another's rank, and the number of stages from there to the end.
std::set<Counts> counts_for(const StageRoom& room, const Allocation& allocation) {
  const Question& question = room.question();
  const int stages = allocation.stages(), most = question.micro_batches;
  if (question.schedule == "gpipe") return {Counts(allocation.ends.size(), most)};
  std::vector<Seconds> times, links, loads(at(room.stages()));
  Seconds period;
  for (int k = 0; k < stages; ++k) {
    const int rank = allocation.rank(k);
    times.push_back(room.work(rank, allocation.layers(k)));
    loads[at(rank)] += times.back();
    period = std::max(period, loads[at(rank)]);
    if (k + 1 == stages) continue;
    const chain::LinkSpec link = question.platform.link(rank, allocation.rank(k + 1));
    links.push_back(2 * room.transfer(link, allocation.last(k)));
    period = std::max(period, links.back());
  }
  if (period == Seconds(0)) period = Seconds(1);
  const Counts least = least_in_flight(times, links, period);
  std::vector<Counts> found(kMoreInFlight + 2);
  for (int k = 0; k < stages; ++k) {
    for (int more = 0; more <= kMoreInFlight; ++more)
      found[at(more)].push_back(std::min(least[at(k)] + (k + 1 < stages ? more : 0), most));
    found.back().push_back(std::min(stages - k, most));
  }
  return {found.begin(), found.end()};
}

/// Makes programs, order of passes and simulation for an allocation with given numbers in flight.
class Layout {
 public:
  /// All must outlive it.
  Layout(const StageRoom& room, StageOptions& options, const Allocation& allocation,
         const Counts& counts)
      : room_(room), options_(options), allocation_(allocation), counts_(counts) {}

  /// Estimated step with quickly found programs if links are always free; kNever if a stage does
  /// not fit.
  Seconds estimate() {
    const auto found = programs(std::vector<Bytes>(at(room_.stages())), How::kQuick);
    return found ? Seconds(order(*found).end) : kNever;
  }

  /// A plan that the simulator finds within every budget; empty if there is none.
  std::optional<plan::Plan> built() {
    std::vector<Bytes> less(at(room_.stages()));
    auto found = tightened(room_.question(), kTightenings, less,
                           [&](const std::vector<Bytes>& now_less) { return judge(now_less); });
    if (!found) return std::nullopt;
    return with_early_recomputation(
        room_, loosened(*std::move(found), std::move(less)),
        [&](int rank) { return memory(by_rank_[at(rank)]); }, counts_);
  }

 private:
  using Programs = std::vector<const Prepared*>;
  using How = StageOptions::How;

  /// A rank's memory for the programs of these stages; kUnlimited without a budget.
  Bytes memory(const std::vector<int>& stages) const {
    Bytes left = kUnlimited;
    Bytes taken;
    for (const int k : stages) {
      const int rank = allocation_.rank(k);
      const Bytes alone = room_.memory(rank, allocation_.layers(k));
      if (alone == kUnlimited) return kUnlimited;
      left = room_.whole(rank);
      taken += left - alone;
    }
    return left - taken;
  }

  std::optional<Programs> alone(const StageOptions::Asked& asked, Bytes memory, How how) {
    const auto* const found = options_.fastest(asked.layers, memory, asked.in_flight, how);
    return found != nullptr ? std::optional(Programs{found}) : std::nullopt;
  }

  /// Programs by stage; empty if a rank has too little memory. `less`: bytes that each rank is to
  /// leave free.
  std::optional<Programs> programs(const std::vector<Bytes>& less, How how) {
    Programs found(allocation_.ends.size(), nullptr);
    for (const std::vector<int>& stages : by_rank_) {
      if (stages.empty()) continue;
      Bytes left = memory(stages);
      if (left != kUnlimited) left -= less[at(allocation_.rank(stages.front()))];
      std::vector<StageOptions::Asked> asked;
      for (const int k : stages) asked.push_back({allocation_.layers(k), counts_[at(k)]});
      const auto chosen =
          asked.size() > 1 ? options_.shared(asked, left, how) : alone(asked.front(), left, how);
      if (!chosen) return std::nullopt;
      for (std::size_t i = 0; i < stages.size(); ++i) found[at(stages[i])] = (*chosen)[i];
    }
    return found;
  }

  schedule::PlacedOrder order(const Programs& programs) const {
    const Question& question = room_.question();
    schedule::ChunkTimes times;
    for (int k = 0; k < allocation_.stages(); ++k) {
      const int rank = allocation_.rank(k);
      const StageNeeds& needs = programs[at(k)]->needs;
      times.forward.push_back(needs.forward.count() / room_.speed(rank));
      times.backward.push_back(needs.backward.count() / room_.speed(rank));
      if (k + 1 == allocation_.stages()) continue;
      const chain::LinkSpec link = question.platform.link(rank, allocation_.rank(k + 1));
      times.message.push_back(link.time(question.chain.output(allocation_.last(k))).count());
    }
    return schedule::placed_order(schedule::one_f_one_b_with(counts_, question.micro_batches),
                                  allocation_.ranks, &times);
  }

  std::optional<Simulated> judge(const std::vector<Bytes>& less) {
    const auto chosen = programs(less, How::kCareful);
    if (!chosen) return std::nullopt;
    std::vector<program::StageProgram> moved;
    for (int k = 0; k < allocation_.stages(); ++k)
      moved.push_back(program::moved_to((*chosen)[at(k)]->program, allocation_.first(k)));
    return judged(room_.question(), kName, std::move(moved),
                  {.ranks = allocation_.ranks, .order = order(*chosen).order});
  }

  bool is_over(const Simulated& found) const {
    const std::vector<Bytes> over = excess(room_.question(), found.simulation);
    return std::any_of(over.begin(), over.end(), [](Bytes bytes) { return bytes > Bytes(0); });
  }

  /// Gives ranks their unused memory as long as that makes the plan faster. Stages of one rank
  /// seldom peak at the same time, so together they may be given more than the rank has.
  plan::Plan loosened(Simulated found, std::vector<Bytes> less) {
    for (int round = 0; round < kLoosenings && found.plan.recompute > Seconds(0); ++round) {
      const std::vector<Bytes> before = less;
      for (std::size_t rank = 0; rank < less.size(); ++rank) {
        const Bytes memory = room_.question().platform.ranks[rank].memory;
        if (by_rank_[rank].size() > 1 && memory > Bytes(0))
          less[rank] += needed(found.simulation.ranks[rank]) - memory;
      }
      if (less == before) break;
      auto result = judge(less);
      if (!result || result->plan.step >= found.plan.step || is_over(*result)) break;
      found = *std::move(result);
    }
    return std::move(found.plan);
  }

  const StageRoom& room_;
  StageOptions& options_;
  const Allocation& allocation_;
  const Counts& counts_;
  const std::vector<std::vector<int>> by_rank_ = stages_by_rank(allocation_, room_.stages());
};

class Madpipe {
 public:
  Madpipe(const StageRoom& room, StagePolicy& policy, Seconds least, double handicap)
      : room_(room), options_(room, policy, kLevels), least_(least), longer_(1 + handicap) {}

  std::optional<plan::Plan> best() {
    std::vector<std::vector<Candidate>> found;  // by allocation
    for (const Allocation& allocation : allocations()) {
      std::vector<Candidate> of_one = candidates(allocation);
      if (!of_one.empty()) found.push_back(std::move(of_one));
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const auto& a, const auto& b) { return a.front().step < b.front().step; });
    for (std::size_t i = 0; i < std::min(kBuilt, found.size()); ++i) build(found[i]);
    if (plan_) climb();
    return std::move(plan_);
  }

 private:
  struct Candidate {
    Seconds step;  // with the handicap
    Allocation allocation;
    Counts counts;
  };

  /// All allocations, or those that the dynamic program finds for several periods.
  std::set<Allocation> allocations() {
    std::set<Allocation> found;
    const std::vector<int> specials = special_ranks(room_.question().platform, room_.stages());
    const double count = count_allocations(room_.layers(), room_.stages());
    const bool are_few = count * static_cast<double>(specials.size()) <= kAll;
    for (const int special : specials) {
      if (!are_few) {
        search(special, kLabels, found);
        if (room_.layers() * room_.stages() <= kFewPlaces) search(special, kMoreLabels, found);
        continue;
      }
      const auto every = every_allocation(room_.layers(), room_.stages(), special);
      found.insert(every.begin(), every.end());
    }
    return found;
  }

  void search(int special, std::size_t labels, std::set<Allocation>& found) {
    const auto look = [&](Seconds period) {
      const auto within = allocations_within(room_, options_, special, labels, period);
      found.insert(within.begin(), within.end());
      return !within.empty();
    };
    const int micro_batches = room_.question().micro_batches;
    Seconds less = least_period(room_, special), enough = 2 * room_.stages() * less;
    if (least_ != kNever) enough = std::min(enough, least_ / micro_batches);
    if (enough < less || !look(enough)) return;
    const Seconds most = enough;
    for (int round = 0; round < kBisections; ++round) {
      const Seconds middle = (less + enough) / 2;
      (look(middle) ? enough : less) = middle;
    }
    for (const double longer : kLonger) {
      if (enough * longer < most) look(enough * longer);
    }
  }

  /// Candidates with all numbers in flight, by estimated step; none if no plan could beat the best.
  std::vector<Candidate> candidates(const Allocation& allocation) {
    std::vector<Candidate> found;
    if (counted(least_step(room_, allocation), allocation) >= least_ * (1 - kGain)) return found;
    for (const Counts& counts : counts_for(room_, allocation)) {
      const Seconds step = Layout(room_, options_, allocation, counts).estimate();
      if (step != kNever) found.push_back({counted(step, allocation), allocation, counts});
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const Candidate& a, const Candidate& b) { return a.step < b.step; });
    return found;
  }

  /// Simulates the first candidates and keeps the best plan. Returns whether it is the best so far.
  bool build(const std::vector<Candidate>& candidates) {
    bool better = false;
    for (std::size_t i = 0; i < std::min(kBuiltCounts, candidates.size()); ++i) {
      const auto& [estimate, allocation, counts] = candidates[i];
      if (estimate >= least_ * kHopeless) continue;
      auto plan = Layout(room_, options_, allocation, counts).built();
      if (!plan) continue;
      const Seconds step = counted(plan->step, allocation);
      if (step >= least_ * (1 - kGain)) continue;
      least_ = step;
      plan_ = std::move(plan);
      allocation_ = allocation;
      better = true;
    }
    return better;
  }

  /// The step with the handicap for several stages on a rank.
  Seconds counted(Seconds step, const Allocation& allocation) const {
    return allocation.stages() > room_.stages() ? step * longer_ : step;
  }

  /// Local search: moves the ends of the best plan's stages by a layer while that helps.
  void climb() {
    int left = kSteps;
    for (bool better = true; better && left > 0;) {
      better = false;
      const Allocation from = allocation_;
      for (int k = 0; k + 1 < from.stages() && !better; ++k) {
        for (const int move : {-1, 1}) {
          Allocation next = from;
          int& end = next.ends[at(k)];
          end += move;
          if (end < next.first(k) || end >= next.last(k + 1)) continue;
          better = build(candidates(next));
          if (better || --left <= 0) break;
        }
      }
    }
  }

  const StageRoom& room_;
  StageOptions options_;
  Seconds least_;  // the best plan's counted step, or the bound to beat
  double longer_;
  std::optional<plan::Plan> plan_;
  Allocation allocation_;  // of plan_
};

}  // namespace

std::optional<plan::Plan> madpipe_plan(const StageRoom& room, StagePolicy& policy, Seconds least,
                                       double handicap) {
  return Madpipe(room, policy, least, handicap).best();
}

}  // namespace trireme::partition
