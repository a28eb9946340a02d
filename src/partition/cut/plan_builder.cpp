// SPDX-License-Identifier: Apache-2.0
#include "plan_builder.h"

#include "judge/judge.h"
#include "stage/labels.h"
#include "stage/recompute_early.h"
#include "values/effort.h"

#include <algorithm>
#include <utility>

namespace trireme::partition {
namespace {

/// Most retries with less memory for a plan over a budget.
constexpr int kTightenings = 6;
/// Shares of a stage's memory for which further programs are made.
constexpr double kShares[] = {0.93, 0.86, 0.79, 0.72, 0.65, 0.58, 0.5, 0.4};
constexpr int kRounds = 4;
/// Number of starting runs tried for moving recomputation ahead of the gradient.
constexpr int kStarts = 2;
/// Most programs that keep less and less.
constexpr int kSteps = 6;
/// Most cuts tried with copies.
constexpr int kMostCuts = 16;

using How = PlanBuilder::How;
using Programs = std::vector<program::StageProgram>;

/// The policy's own program for every stage; empty if some stage does not fit. `less`: bytes that
/// each stage is to leave free.
std::optional<Programs> fastest_programs(const StageRoom& room, StagePolicy& policy, const Cut& cut,
                                         const std::vector<Bytes>& less, bool copies) {
  for (int k = 0; k < room.stages(); ++k)
    if (!room.may_fit(k, layers_of(cut, k))) return std::nullopt;
  Programs programs;
  for (int k = 0; k < room.stages(); ++k) {
    StageQuestion asked = room.asked(k, layers_of(cut, k), copies);
    asked.memory -= less[at(k)];
    std::optional<program::StageProgram> program;
    if (asked.memory >= Bytes(0)) program = policy.program(asked);
    if (!program) return std::nullopt;
    programs.push_back(*std::move(program));
  }
  return programs;
}

struct Variant {
  program::StageProgram program;
  PassTimes times;
};

std::vector<Variant> variants_of(const StageRoom& room, StagePolicy& policy, int stage,
                                 const StageQuestion& asked) {
  const chain::Chain& chain = room.question().chain;
  const double speed = room.speed(stage);
  const bool waits = stage + 1 < room.stages();
  std::vector<Variant> variants;
  if (asked.memory < Bytes(0)) return variants;
  const auto add = [&](const program::StageProgram& program) {
    for (int left_alone = 0; left_alone < (waits ? kStarts : 1); ++left_alone) {
      Prepared next =
          prepared(chain, waits ? recompute_early(chain, asked, program, left_alone) : program);
      const PassTimes times{.forward = next.needs.forward / speed,
                            .backward = next.needs.backward / speed,
                            .ahead = ahead(chain, next.program) / speed};
      const bool dominated = std::any_of(variants.begin(), variants.end(), [&](const Variant& one) {
        return one.times.backward <= times.backward && one.times.ahead >= times.ahead;
      });
      if (!dominated) variants.push_back({std::move(next.program), times});
    }
  };
  const auto fastest = policy.program(asked);
  if (!fastest) return variants;
  add(*fastest);
  const PassTimes& times = variants.front().times;
  const bool again = times.forward + times.backward > room.work(stage, asked.layers);
  if (!waits || !again) return variants;  // nothing to hide
  for (const double share : kShares) {
    StageQuestion smaller = asked;
    smaller.memory =
        Bytes(static_cast<Bytes::rep>(share * static_cast<double>(asked.memory.count())));
    auto program = policy.program(smaller);
    if (!program) break;
    add(*program);
  }
  // With one more micro-batch in flight and just too little memory for the last program: the
  // fastest program that keeps less, repeatedly.
  StageQuestion crowded = asked;
  ++crowded.in_flight;
  StageNeeds needs = prepared(chain, *fastest).needs;
  for (int i = 0; i < kSteps; ++i) {
    crowded.memory = needs.memory(crowded.in_flight) - Bytes(1);
    const auto next = policy.program(crowded);
    if (!next) break;
    needs = prepared(chain, *next).needs;
    if (needs.memory(asked.in_flight) <= asked.memory) add(*next);
  }
  for (const program::StageProgram& program : short_stage_programs(chain, asked)) add(program);
  return variants;
}

/// For every stage one of the policy's programs for less and less memory, with as much
/// recomputation ahead of the gradient as fits, chosen together by timeline; empty if some stage
/// does not fit. `less`: bytes that each stage is to leave free.
std::optional<Programs> chosen_programs(const StageRoom& room, StagePolicy& policy, const Cut& cut,
                                        const std::vector<Bytes>& less) {
  std::vector<std::vector<Variant>> variants;
  std::vector<PassTimes> times;
  for (int k = 0; k < room.stages(); ++k) {
    StageQuestion asked = room.asked(k, layers_of(cut, k));
    asked.memory -= less[at(k)];
    variants.push_back(variants_of(room, policy, k, asked));
    if (variants.back().empty()) return std::nullopt;
    times.push_back(variants.back().front().times);
  }
  std::vector<std::size_t> choice(cut.size(), 0);
  Timeline timeline(room);
  Seconds least = timeline.step(cut, times);
  bool better = true;
  for (int round = 0; round < kRounds && better; ++round) {
    better = false;
    for (std::size_t k = 0; k < cut.size(); ++k) {
      for (std::size_t v = 0; v < variants[k].size(); ++v) {
        times[k] = variants[k][v].times;
        const Seconds step = timeline.step(cut, times, least);
        if (step >= least * (1 - kGain)) continue;
        least = step;
        choice[k] = v;
        better = true;
      }
      times[k] = variants[k][choice[k]].times;
    }
  }
  Programs programs;
  for (std::size_t k = 0; k < cut.size(); ++k)
    programs.push_back(std::move(variants[k][choice[k]].program));
  return programs;
}

/// Cuts from which the search with copies starts. Copies take long to plan, so only the best cut
/// without them is used and, where copies may avoid all recomputation, the best one that keeps
/// everything without a budget.
std::vector<Cut> first_cuts(const Question& question, PlanBuilder& builder, std::vector<Cut> cuts) {
  cuts.resize(std::min<std::size_t>(1, cuts.size()));
  if (question.cut) return cuts;
  Question rich = question;
  for (chain::RankSpec& rank : rich.platform.ranks) rank.memory = Bytes(0);
  const StageRoom room(rich);
  for (Cut& cut : CutSearch(room, builder.policy("keep_all")).candidates(1)) {
    if (std::find(cuts.begin(), cuts.end(), cut) == cuts.end()) cuts.push_back(std::move(cut));
  }
  return cuts;
}

}  // namespace

StagePolicy& PlanBuilder::policy(const std::string& name) {
  std::shared_ptr<StagePolicy>& policy = policies_[name];
  if (!policy) policy = policy_named(room_.question(), name);
  return *policy;
}

std::optional<plan::Plan> PlanBuilder::built(const std::string& name, const Cut& cut, How how) {
  std::vector<Bytes> less(cut.size());
  const auto make = [&](const std::vector<Bytes>& now_less) -> std::optional<Simulated> {
    auto programs = how == How::kChosen
                        ? chosen_programs(room_, policy(name), cut, now_less)
                        : fastest_programs(room_, policy(name), cut, now_less, how == How::kCopies);
    if (!programs) return std::nullopt;
    return judged(room_.question(), name, *std::move(programs));
  };
  auto found = tightened(room_.question(), kTightenings, less, make);
  return found ? std::optional(std::move(found->plan)) : std::nullopt;
}

plan::Plan PlanBuilder::mixed(plan::Plan plan, const plan::Plan& other) {
  for (std::size_t k = 0; k < plan.stages.size(); ++k) {
    if (plan.stages[k].program == other.stages[k].program) continue;
    Programs programs;
    for (const plan::StagePlan& stage : plan.stages) programs.push_back(stage.program);
    programs[k] = other.stages[k].program;
    Simulated tried = judged(room_.question(), plan.solver, std::move(programs));
    if (tried.plan.step < plan.step && is_within(room_.question(), tried.simulation))
      plan = std::move(tried.plan);
  }
  return plan;
}

Found joint_with_copies(const StageRoom& room, PlanBuilder& builder, const Found& plain,
                        const std::vector<Cut>& cuts) {
  CutSearch search(room, builder.policy("joint"));
  Found found;
  int left = kMostCuts;
  // Keeps the plan on that cut if it is the best so far.
  const auto improve = [&](const Cut& cut) {
    const Seconds least = search.ideal_step(cut);
    const auto is_hopeless = [&](const Found& beside) {
      return beside.plan && least >= beside.plan->step * (1 - kGain);
    };
    if (is_hopeless(plain) || is_hopeless(found) || left-- <= 0) return false;
    return found.take(builder.built("joint", cut, How::kCopies), cut);
  };
  for (const Cut& cut : first_cuts(room.question(), builder, cuts)) improve(cut);
  if (!found.plan) return {};
  // The last stage's copies are searched. A layer moves from the slowest stage to either neighbour
  // while the step gets shorter.
  const program::StageProgram& last = found.plan->stages.back().program;
  const bool is_quick = last.last_layer - last.first_layer < kFewLayers;
  for (bool better = is_quick && !room.question().cut; better;) {
    better = false;
    const std::size_t slowest = slowest_first(*found.plan).front();
    const program::StageProgram& program = found.plan->stages[slowest].program;
    if (program.last_layer == program.first_layer) break;
    Cut less_at_end = found.cut, less_at_begin = found.cut;
    if (slowest + 1 < found.cut.size()) {
      --less_at_end[slowest];
      better = improve(less_at_end);
    }
    if (!better && slowest > 0) {
      ++less_at_begin[slowest - 1];
      better = improve(less_at_begin);
    }
  }
  // Where copies do not pay, recomputation during a wait may.
  if (const auto other = builder.built("joint", found.cut, How::kChosen))
    found.plan = builder.mixed(*std::move(found.plan), *other);
  return found;
}

}  // namespace trireme::partition
