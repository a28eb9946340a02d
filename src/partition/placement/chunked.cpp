// SPDX-License-Identifier: Apache-2.0
#include "chunked.h"

#include "chunk_cut.h"
#include "chunk_layout.h"
#include "early.h"
#include "judge/judge.h"
#include "madpipe.h"
#include "values/lookup.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <array>
#include <deque>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace trireme::partition {
namespace {

/// Numbers of chunks on a rank that are tried.
constexpr std::array kPerRank{2, 4};
/// Shares of what the chunks keep of all micro-batches that fill the ranks; the order for a share
/// says how many programs must have room for.
constexpr std::array kShares{1.0, 0.8, 0.65, 0.5, 0.4, 0.3, 0.2};
/// Memory sizes for which programs of chunks are made.
constexpr int kLevels = 6;
/// Passes of a step above which orders take long to search.
constexpr int kMostPasses = 20'000;
/// Candidates for each number of chunks whose orders are searched closely.
constexpr std::size_t kSearched = 2;
/// Rounds of programs for the order and an order for the programs.
constexpr int kRounds = 2;
/// Candidates whose steps by list schedules are more than this factor of the best step are not
/// searched closely, which seldom shortens a step by more than a tenth.
constexpr double kFarFromBest = 1.2;
/// Placements with one rank of several chunks are tried where the step of V-shaped plans is more
/// than this factor of the ideal one.
constexpr double kNearIdealStep = 1.05;
/// Most retries with less memory for a plan over a budget.
constexpr int kTightenings = 5;
/// The name of a searched order in plans.
constexpr const char* kName = "searched";
/// Efforts for steps of up to kUsualPasses passes; longer ones get less in proportion.
constexpr schedule::SearchEffort kQuick{.rules = 500, .moves_per_pass = 0};
constexpr schedule::SearchEffort kUsual{.rules = 3000, .moves_per_pass = 20}, kCareful{};
constexpr int kUsualPasses = 2500;

/// By rank, the bytes that this share of all micro-batches which fill the ranks takes: a chunk's
/// live as long as a micro-batch takes from there to the end of the chain and back.
std::vector<Bytes> room_for(const schedule::Workload& workload, double share) {
  const auto chunks = static_cast<int>(workload.placement.size());
  const int ranks = schedule::ranks_of(workload.placement);
  std::vector<double> all(at(ranks)), kept(at(ranks));
  std::vector<Bytes> least(at(ranks));
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const schedule::ChunkCosts& costs = workload.chunks[at(chunk)];
    const std::size_t rank = at(workload.placement[at(chunk)]);
    all[rank] += chunks - chunk;
    kept[rank] += static_cast<double>(costs.kept.count()) * (chunks - chunk);
    least[rank] += costs.kept + std::max(costs.forward_more, costs.backward_more);
  }
  std::vector<Bytes> room;
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    room.push_back(std::max(
        least[rank], Bytes(static_cast<Bytes::rep>(share * chunks * kept[rank] / all[rank]))));
  return room;
}

/// By chunk, half of the micro-batches that fill the ranks.
std::vector<int> half_in_flight(const schedule::Placement& placement) {
  const auto chunks = static_cast<int>(placement.size());
  const int per_rank = chunks / schedule::ranks_of(placement);
  std::vector<int> in_flight;
  for (int chunk = 0; chunk < chunks; ++chunk)
    in_flight.push_back((chunks - chunk + 2 * per_rank - 1) / (2 * per_rank));
  return in_flight;
}

int passes_of(const Question& question, int per_rank) {
  return 3 * question.stages * per_rank * question.micro_batches;
}

bool has_few_passes(const Question& question, int per_rank) {
  return question.stages * per_rank <= question.chain.length() &&
         passes_of(question, per_rank) <= kMostPasses;
}

schedule::SearchEffort effort_for(schedule::SearchEffort effort, int passes) {
  const double share = std::min(1.0, static_cast<double>(kUsualPasses) / passes);
  effort.rules = static_cast<int>(effort.rules * share);
  effort.moves_per_pass = static_cast<int>(effort.moves_per_pass * share);
  return effort;
}

/// The cut with which the rank that lacks most lacks least, with programs that need least and that
/// many micro-batches in flight.
Cut roomy_cut(const StageRoom& room, StageOptions& options, const schedule::Placement& placement,
              const Cut& cut, const std::vector<int>& in_flight) {
  return roomy_chunks(room, placement, cut, [&](const Cut& one) {
    const plan::Infeasible most = ChunkLayout(room, options, placement, one).lack(in_flight);
    return most.needed - most.available;
  });
}

plan::Plan with_early_recomputation(const StageRoom& room, const ChunkLayout& layout,
                                    plan::Plan plan) {
  const std::vector<int> in_flight = schedule::in_flight(plan::order_of(plan), layout.placement());
  return with_early_recomputation(
      room, std::move(plan), [&](int rank) { return layout.memory(rank); }, in_flight);
}

bool are_same(const ChunkLayout::Programs& some, const ChunkLayout::Programs& others) {
  return std::equal(
      some.begin(), some.end(), others.begin(),
      [](const Prepared* one, const Prepared* other) { return one->program == other->program; });
}

using Offload = ChunkLayout::Offload;

std::vector<Offload> ways_to_offload(const ChunkLayout& layout) {
  if (!layout.can_offload()) return {Offload::kNone};
  return {Offload::kNone, Offload::kMay};
}

/// Programs on a layout, with an order for them.
struct Candidate {
  ChunkLayout* layout = nullptr;
  Offload offload = Offload::kNone;
  ChunkLayout::Programs programs;
  schedule::SearchedOrder found;
};

class Searched {
 public:
  Searched(const StageRoom& room, StagePolicy& policy)
      : room_(room), policy_(policy), options_(room, policy, kLevels) {}

  std::optional<plan::Plan> best() {
    for (const int per_rank : kPerRank)
      if (has_few_passes(room_.question(), per_rank)) refine(best_of(v_shaped(per_rank)));
    if (least_ > ideal_step(room_.question()) * kNearIdealStep) refine(best_of(special_rank()));
    if (best_ && best_->found.step > best_->found.bound) build(*best_, kCareful);
    if (!plan_) return std::nullopt;
    return with_early_recomputation(room_, *best_->layout, *std::move(plan_));
  }

 private:
  using How = StageOptions::How;

  std::vector<Candidate> v_shaped(int per_rank) {
    const schedule::Placement placement = schedule::v_shaped(room_.question().stages, per_rank);
    const Cut balanced = balanced_chunks(room_, placement);
    std::vector<Candidate> found = candidates_of(placement, balanced);
    const Cut roomy = roomy_cut(room_, options_, placement, balanced, half_in_flight(placement));
    if (roomy == balanced) return found;
    std::vector<Candidate> more = candidates_of(placement, roomy);
    std::move(more.begin(), more.end(), std::back_inserter(found));
    return found;
  }

  /// Several chunks on one rank, where madpipe's plan has them.
  std::vector<Candidate> special_rank() {
    if (!has_few_passes(room_.question(), 1)) return {};
    const std::optional<plan::Plan> plan = madpipe_plan(room_, policy_, kNever, 0);
    if (!plan || !schedule::shares_ranks(plan::placement(*plan))) return {};
    return candidates_of(plan::placement(*plan), cut_of(*plan));
  }

  /// Those with the shortest steps by list schedules, and of the others the one with the least
  /// bound. Steps with more chunks on a rank are not compared with those of fewer: their orders
  /// need more search.
  static std::vector<Candidate> best_of(std::vector<Candidate> some) {
    std::stable_sort(some.begin(), some.end(), [](const Candidate& a, const Candidate& b) {
      return a.found.step < b.found.step;
    });
    for (std::size_t i = kSearched + 1; i < some.size(); ++i)
      if (some[i].found.bound < some[kSearched].found.bound) std::swap(some[kSearched], some[i]);
    some.resize(std::min(some.size(), kSearched + 1));
    return some;
  }

  std::vector<Candidate> candidates_of(const schedule::Placement& placement, const Cut& cut) {
    layouts_.emplace_back(room_, options_, placement, cut);
    return candidates(layouts_.back());
  }

  /// Programs that keep everything, for which the order alone spares memory, and programs for what
  /// orders of those hold that spare more or less of it.
  std::vector<Candidate> candidates(ChunkLayout& layout) {
    std::vector<Candidate> found;
    const auto add = [&](ChunkLayout::Programs programs, Offload offload) {
      const auto is_same = [&](const Candidate& other) {
        return are_same(other.programs, programs);
      };
      if (std::any_of(found.begin(), found.end(), is_same)) return;
      auto best = schedule::search(layout.workload(programs, free_), effort(kQuick, layout));
      if (best) found.push_back({&layout, offload, std::move(programs), *std::move(best)});
    };
    ChunkLayout::Programs all = layout.keep_all();
    schedule::Workload kept = layout.workload(all, free_);
    add(std::move(all), Offload::kNone);
    const std::vector<Offload> ways = ways_to_offload(layout);
    for (const double share : kShares) {
      if (kept.room.empty()) break;
      kept.room = room_for(kept, share);
      const auto order = schedule::search(kept, effort(kQuick, layout));
      if (!order) continue;
      for (const Offload offload : ways) {
        auto programs = layout.programs(order->order, How::kQuick, offload, free_);
        if (programs) add(*std::move(programs), offload);
      }
    }
    return found;
  }

  void refine(const std::vector<Candidate>& some) {
    for (const Candidate& one : some)
      if (one.found.step <= least_ * kFarFromBest) refine(one);
  }

  /// An order for the candidate's programs, then programs for what it holds, and so on.
  void refine(Candidate one) {
    for (int round = 0; round < kRounds; ++round) {
      if (!build(one, kUsual)) return;
      auto programs = one.layout->programs(one.found.order, How::kCareful, one.offload, free_);
      if (!programs || are_same(*programs, one.programs)) return;
      one.programs = *std::move(programs);
    }
  }

  /// Searches an order for the candidate until the simulator finds that it fits, beginning with the
  /// order that it has. Keeps the plan if it is the best so far; returns whether it is.
  bool build(Candidate& one, const schedule::SearchEffort& effort) {
    std::vector<Bytes> less = free_;
    auto found = tightened(
        room_.question(), kTightenings, less,
        [&](const std::vector<Bytes>& now_less) -> std::optional<Simulated> {
          const schedule::Workload workload = one.layout->workload(one.programs, now_less);
          if (schedule::bound(workload) >= least_ * (1 - kGain)) return std::nullopt;
          auto searched = schedule::search(workload, this->effort(effort, *one.layout), also(one));
          if (!searched) return std::nullopt;
          one.found = *std::move(searched);
          return one.layout->judge(one.programs, one.found.order, kName);
        });
    if (!found || found->plan.step >= least_ * (1 - kGain)) return false;
    least_ = found->plan.step;
    plan_ = std::move(found->plan);
    plan_->order_bound = one.found.bound;
    best_ = one;
    return true;
  }

  schedule::SearchEffort effort(const schedule::SearchEffort& usual,
                                const ChunkLayout& layout) const {
    return effort_for(usual,
                      passes_of(room_.question(), layout.chunks() / room_.question().stages));
  }

  /// The candidate's order, where that still has the parts of backwards that its programs have.
  std::vector<schedule::Order> also(const Candidate& one) const {
    return {with_parts(one.found.order, one.layout->split(one.programs))};
  }

  const StageRoom& room_;
  StagePolicy& policy_;
  StageOptions options_;
  Seconds least_ = kNever;  ///< step of plan_
  const std::vector<Bytes> free_ = std::vector<Bytes>(at(room_.stages()));
  std::deque<ChunkLayout> layouts_;
  std::optional<plan::Plan> plan_;
  std::optional<Candidate> best_;  ///< of plan_
};

/// Numbers of chunks on a rank that the schedule may have and that can be planned.
std::vector<int> numbers_of_chunks(const Question& question,
                                   const schedule::NamedSchedule& schedule) {
  std::vector<int> numbers{schedule.per_rank};
  if (schedule.per_rank == 0) numbers.assign(kPerRank.begin(), kPerRank.end());
  std::erase_if(numbers, [&](int number) { return !has_few_passes(question, number); });
  return numbers;
}

/// Whether ranks would even if they kept everything on the device.
bool waits_in_a_circle(const Question& asked, const schedule::NamedSchedule& schedule,
                       int per_rank) {
  Question bare = asked;
  bare.optimizer_copies = Seconds(0);
  bare.streamed = std::vector<int>{};
  for (chain::RankSpec& rank : bare.platform.ranks) rank.memory = Bytes(0);
  const StageRoom room(bare);
  const auto policy = policy_named(bare, "keep_all");
  StageOptions options(room, *policy, kLevels);
  const schedule::Placement placement = placement_of(schedule, bare.stages, per_rank);
  ChunkLayout layout(room, options, placement, balanced_chunks(room, placement));
  const ChunkLayout::Programs all = layout.keep_all();
  const schedule::Order order =
      order_of(schedule, bare.stages, per_rank, bare.micro_batches, layout.split(all));
  return !layout.judge(all, order, std::string(schedule.name));
}

}  // namespace

std::optional<plan::Plan> searched_plan(const StageRoom& room, StagePolicy& policy) {
  return Searched(room, policy).best();
}

std::optional<plan::Plan> named_plan(const StageRoom& room, StagePolicy& policy,
                                     const schedule::NamedSchedule& schedule) {
  const Question& question = room.question();
  std::optional<plan::Plan> best;
  StageOptions options(room, policy, kLevels);
  for (const int per_rank : numbers_of_chunks(question, schedule)) {
    const schedule::Placement placement = placement_of(schedule, question.stages, per_rank);
    const auto order_for = [&](const std::vector<bool>& split) {
      return order_of(schedule, question.stages, per_rank, question.micro_batches, split);
    };
    const schedule::Order order = order_for({});
    std::vector<Cut> cuts{balanced_chunks(room, placement)};
    Cut roomy = roomy_cut(room, options, placement, cuts[0], schedule::in_flight(order, placement));
    if (roomy != cuts[0]) cuts.push_back(std::move(roomy));
    for (const Cut& cut : cuts) {
      ChunkLayout layout(room, options, placement, cut);
      for (const Offload offload : ways_to_offload(layout)) {
        std::vector<Bytes> less(at(question.stages));
        auto found = tightened(question, kTightenings, less,
                               [&](const std::vector<Bytes>& now_less) -> std::optional<Simulated> {
                                 const auto programs = layout.programs(
                                     order, StageOptions::How::kCareful, offload, now_less);
                                 if (!programs) return std::nullopt;
                                 return layout.judge(*programs, order_for(layout.split(*programs)),
                                                     std::string(schedule.name));
                               });
        if (!found) continue;
        plan::Plan plan = with_early_recomputation(room, layout, std::move(found->plan));
        if (!best || plan.step < best->step) best = std::move(plan);
      }
    }
  }
  return best;
}

plan::Infeasible lack_of(const StageRoom& room, StagePolicy& policy,
                         const schedule::NamedSchedule& schedule) {
  const Question& question = room.question();
  const int per_rank = schedule.per_rank == 0 ? kPerRank.front() : schedule.per_rank;
  if (question.stages * per_rank > question.chain.length())
    throw InputError(concat("schedule: ", schedule.name, " has ", per_rank, " chunks on each of ",
                            question.stages, " ranks, but the chain has ", question.chain.length(),
                            " layers and every chunk needs one: use fewer ranks"));
  if (!has_few_passes(question, per_rank))
    throw InputError(concat("schedule: ", schedule.name, " with ", question.micro_batches,
                            " micro-batches has too many passes to plan, at most ", kMostPasses,
                            ": use fewer micro-batches, or 1f1b"));
  const std::vector<int> numbers = numbers_of_chunks(question, schedule);
  if (std::ranges::all_of(
          numbers, [&](int number) { return waits_in_a_circle(question, schedule, number); }))
    throw InputError(concat("schedule: ", schedule.name, " with ", question.micro_batches,
                            " micro-batches on ", question.stages,
                            " ranks would wait in a circle, since links hold two messages at a "
                            "time: use fewer micro-batches (looped-bfs: at most ",
                            3 * question.stages - 1, "), or interleaved"));
  StageOptions options(room, policy, kLevels);
  const schedule::Placement placement = placement_of(schedule, question.stages, per_rank);
  const std::vector<int> in_flight = schedule::in_flight(
      order_of(schedule, question.stages, per_rank, question.micro_batches), placement);
  const Cut cut = roomy_cut(room, options, placement, balanced_chunks(room, placement), in_flight);
  plan::Infeasible most = ChunkLayout(room, options, placement, cut).lack(in_flight);
  // What is not counted, such as copies under way, may take more than is left.
  most.least_budget = std::max(most.needed, most.available + Bytes(1));
  return most;
}

}  // namespace trireme::partition
