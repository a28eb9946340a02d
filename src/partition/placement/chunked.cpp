// SPDX-License-Identifier: Apache-2.0
#include "chunked.h"

#include "chunk_cut.h"
#include "chunk_layout.h"
#include "judge/judge.h"
#include "values/lookup.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace trireme::partition {
namespace {

/// Numbers of chunks on a rank that are tried.
constexpr std::array kPerRank{2, 4};
/// Shares of the micro-batches that fill the ranks for which programs are made; fewer keep more of
/// each.
constexpr std::array kShares{1.0, 0.8, 0.65, 0.5, 0.4, 0.3, 0.2};
/// Memory sizes for which programs of chunks are made.
constexpr int kLevels = 6;
/// Passes of a step above which orders take long to search.
constexpr int kMostPasses = 20'000;
/// Candidates whose orders are compared, and those that are searched closely.
constexpr std::size_t kCompared = 10, kSearched = 3;
/// Rounds of programs for the order and an order for the programs.
constexpr int kRounds = 2;
/// Most retries with less memory for a plan over a budget.
constexpr int kTightenings = 5;
/// The name of a searched order in plans.
constexpr const char* kName = "searched";
constexpr schedule::SearchEffort kQuick{.moves_per_pass = 0};

/// By chunk, how many micro-batches are in flight where each rank holds `share` of as many as fill
/// it: a chunk's live as long as its micro-batch takes to the end of the chain and back.
std::vector<int> in_flight_of(const schedule::Placement& placement, int micro_batches,
                              double share) {
  const auto chunks = static_cast<int>(placement.size());
  const int ranks = schedule::ranks_of(placement);
  std::vector<int> all(at(ranks)), counts;
  for (int chunk = 0; chunk < chunks; ++chunk) all[at(placement[at(chunk)])] += chunks - chunk;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const double count = share * chunks * (chunks - chunk) / all[at(placement[at(chunk)])];
    counts.push_back(std::clamp(static_cast<int>(std::ceil(count)), 1, micro_batches));
  }
  return counts;
}

bool has_few_passes(const Question& question, int per_rank) {
  return question.stages * per_rank <= question.chain.length() &&
         3 * question.stages * per_rank * question.micro_batches <= kMostPasses;
}

/// Programs on a layout, with the lower bound on the step of every order.
struct Candidate {
  ChunkLayout* layout = nullptr;
  ChunkLayout::Programs programs;
  Seconds bound;
};

class Searched {
 public:
  Searched(const StageRoom& room, StagePolicy& policy, Seconds least)
      : room_(room), options_(room, policy, kLevels), least_(least) {}

  std::optional<plan::Plan> best() {
    std::vector<Candidate> candidates = hopeful();
    compare(candidates);
    for (const Candidate& one : candidates) {
      schedule::Order order;
      build(one, {}, order);
      refine(*one.layout, order);
    }
    return std::move(plan_);
  }

 private:
  using How = StageOptions::How;

  /// Candidates that may beat the best plan, the one with the least bound first.
  std::vector<Candidate> hopeful() {
    std::vector<Candidate> found;
    for (const int per_rank : kPerRank) {
      if (!has_few_passes(room_.question(), per_rank)) continue;
      const schedule::Placement placement = schedule::v_shaped(room_.question().stages, per_rank);
      layouts_.emplace_back(room_, options_, placement, balanced_chunks(room_, placement));
      for (const double share : kShares) {
        const auto counts = in_flight_of(placement, room_.question().micro_batches, share);
        auto programs = layouts_.back().programs(counts, How::kQuick);
        if (!programs || (!found.empty() && found.back().programs == *programs)) continue;
        const Seconds bound = schedule::bound(layouts_.back().workload(*programs, free_));
        if (bound < least_ * (1 - kGain))
          found.push_back({&layouts_.back(), *std::move(programs), bound});
      }
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const Candidate& a, const Candidate& b) { return a.bound < b.bound; });
    found.resize(std::min(found.size(), kCompared));
    return found;
  }

  /// Keeps the candidates for which list schedules give the shortest steps.
  void compare(std::vector<Candidate>& candidates) const {
    for (Candidate& one : candidates) {
      const auto found = schedule::search(one.layout->workload(one.programs, free_), kQuick);
      one.bound = found ? found->step : kNever;
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.bound < b.bound; });
    candidates.resize(std::min(candidates.size(), kSearched));
  }

  /// Searches an order for the candidate until the simulator finds that it fits, and keeps the plan
  /// if it is the best so far. `order`: the one that was found.
  void build(const Candidate& one, const std::vector<schedule::Order>& also,
             schedule::Order& order) {
    std::vector<Bytes> less = free_;
    auto found = tightened(room_.question(), kTightenings, less,
                           [&](const std::vector<Bytes>& now_less) -> std::optional<Simulated> {
                             const schedule::Workload workload =
                                 one.layout->workload(one.programs, now_less);
                             if (schedule::bound(workload) >= least_ * (1 - kGain))
                               return std::nullopt;
                             auto searched = schedule::search(workload, {}, also);
                             if (!searched) return std::nullopt;
                             order = std::move(searched->order);
                             return one.layout->judge(one.programs, order, kName);
                           });
    if (!found || found->plan.step >= least_ * (1 - kGain)) return;
    least_ = found->plan.step;
    plan_ = std::move(found->plan);
  }

  /// Makes programs for what the order holds, and an order for these.
  void refine(ChunkLayout& layout, schedule::Order order) {
    for (int round = 0; round < kRounds && !order.empty(); ++round) {
      const Seconds before = least_;
      auto programs =
          layout.programs(schedule::in_flight(order, layout.placement()), How::kCareful);
      if (!programs) return;
      const Seconds bound = schedule::bound(layout.workload(*programs, free_));
      const std::vector<schedule::Order> also{std::exchange(order, {})};
      build({&layout, *std::move(programs), bound}, also, order);
      if (least_ >= before) return;
    }
  }

  const StageRoom& room_;
  StageOptions options_;
  Seconds least_;
  const std::vector<Bytes> free_ = std::vector<Bytes>(at(room_.stages()));
  std::deque<ChunkLayout> layouts_;
  std::optional<plan::Plan> plan_;
};

}  // namespace

std::optional<plan::Plan> searched_plan(const StageRoom& room, StagePolicy& policy, Seconds least) {
  return Searched(room, policy, least).best();
}

std::optional<plan::Plan> named_plan(const StageRoom& room, StagePolicy& policy,
                                     const schedule::NamedSchedule& schedule) {
  const Question& question = room.question();
  std::optional<plan::Plan> best;
  StageOptions options(room, policy, kLevels);
  for (const int per_rank : schedule.per_rank == 0
                                ? std::vector<int>(kPerRank.begin(), kPerRank.end())
                                : std::vector<int>{schedule.per_rank}) {
    if (!has_few_passes(question, per_rank)) continue;
    const schedule::Placement placement = placement_of(schedule, question.stages, per_rank);
    ChunkLayout layout(room, options, placement, balanced_chunks(room, placement));
    const auto order_for = [&](const std::vector<bool>& split) {
      return order_of(schedule, question.stages, per_rank, question.micro_batches, split);
    };
    const std::vector<int> counts = schedule::in_flight(order_for({}), placement);
    const auto programs = layout.programs(counts, StageOptions::How::kCareful);
    if (!programs) continue;
    auto found =
        layout.judge(*programs, order_for(layout.split(*programs)), std::string(schedule.name));
    if (!found || !is_within(question, found->simulation)) continue;
    if (!best || found->plan.step < best->step) best = std::move(found->plan);
  }
  return best;
}

plan::Infeasible lack_of(const StageRoom& room, StagePolicy& policy,
                         const schedule::NamedSchedule& schedule) {
  const Question& question = room.question();
  const int per_rank = schedule.per_rank == 0 ? kPerRank.front() : schedule.per_rank;
  if (question.stages * per_rank > question.chain.length())
    throw InputError(concat(schedule.name, " has ", per_rank, " chunks on each of ",
                            question.stages, " ranks, but the chain has ", question.chain.length(),
                            " layers and every chunk needs one: use fewer ranks"));
  if (!has_few_passes(question, per_rank))
    throw InputError(concat(schedule.name, " with ", question.micro_batches,
                            " micro-batches has too many passes to plan, at most ", kMostPasses,
                            ": use fewer micro-batches, or 1f1b"));
  StageOptions options(room, policy, kLevels);
  const schedule::Placement placement = placement_of(schedule, question.stages, per_rank);
  const ChunkLayout layout(room, options, placement, balanced_chunks(room, placement));
  return layout.lack(schedule::in_flight(
      order_of(schedule, question.stages, per_rank, question.micro_batches), placement));
}

}  // namespace trireme::partition
