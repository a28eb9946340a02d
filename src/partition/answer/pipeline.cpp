// SPDX-License-Identifier: Apache-2.0
#include "answers.h"
#include "cut/in_flight.h"
#include "cut/plan_builder.h"
#include "cut/shortage.h"
#include "judge/judge.h"
#include "placement/madpipe.h"
#include "values/effort.h"

#include "trireme/core/text.h"
#include "trireme/partition/tried.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace trireme::partition {
namespace {

using How = PlanBuilder::How;

/// Cuts simulated per policy: for the named one, and for the others.
constexpr int kCuts = 12;
constexpr int kOtherCuts = 3;
/// Uniform policies that are searched closely, and the one named where none fits.
constexpr std::size_t kSizes = 2;
constexpr const char* kUniform = "uniform 2";
/// Their sizes up to which all are tried; beyond, each is about a fifth larger than the last.
constexpr int kEvery = 8;
constexpr const char* kMadpipe = "madpipe";
/// Least relative gain for several stages on a rank: they wait for one another wherever times
/// differ from the measured ones, which the simulator does not know.
constexpr double kGainOfSharing = 0.02;

/// Whether the policy is too slow to solve every stage that a cut could make.
bool is_costly(const std::string& name) {
  const solve::Traits traits = solve::traits_of(name).value_or(solve::Traits{});
  return traits.growth > solve::Growth::kLength && !has_policy_of_its_own(name);
}

/// Whether the policy always plans with the ranks' copy links.
bool always_copies(const std::string& name) {
  return solve::traits_of(name).value_or(solve::Traits{}).moves;
}

bool is_instant(const std::string& name) {
  return name == "keep_all" || name == "recompute_all";
}

bool is_faster(const Found& one, const Found& other) {
  return one.plan && (!other.plan || one.plan->step < other.plan->step);
}

/// All "uniform N" and "block N" that differ on stages of this pipeline's lengths; a stage may be
/// up to about twice as long as the mean.
std::vector<std::string> uniform_policies(const StageRoom& room) {
  const int longest = std::min(room.layers(), 2 * (room.layers() / room.stages() + 1));
  std::vector<std::string> names;
  for (int size = 1; size < longest; size += size < kEvery ? 1 : size / 5 + 1) {
    // One layer at a time is recompute_all.
    if (size > 1) names.push_back(concat("uniform ", size));
    names.push_back(concat("block ", size));
  }
  if (names.empty()) names.push_back(kUniform);
  return names;
}

class Pipeline {
 public:
  explicit Pipeline(const Question& question)
      : question_(question), room_(question), builder_(room_) {}

  Answer answer() {
    const bool spread = question_.solver == kMadpipe;
    const std::string named = open_ || spread ? "joint" : question_.solver;
    builder_.policy(named);  // throws if there is none
    if (named == "joint") fits_ = fits(room_, builder_.policy(named));
    for (const std::string other : {"keep_all", "recompute_all", "adapipe", "offload"}) {
      const bool moves = other == "offload";
      if (other == named || (moves && !can_copy_) || !(open_ || is_instant(other))) continue;
      consider(other, moves && room_.layers() <= kFewLayers ? kCuts : kOtherCuts);
    }
    if (open_) consider_uniform();
    std::vector<Tried> others = std::exchange(tried_, {});
    consider(named, kCuts);
    std::move(others.begin(), others.end(), std::back_inserter(tried_));
    if (named == "joint") consider_in_flight();
    if (open_) consider_movers();
    if (named == "joint" && !spread) consider_mixed();
    // `auto` tries several stages on a rank only where links cost something: with free messages
    // more stages look better than they are. Large questions would take minutes.
    const bool may_share =
        question_.platform.default_link.rate > BytesPerSecond(0) && !is_large(question_);
    if (room_.stages() > 1 && (spread || (open_ && may_share))) consider_madpipe();
    const Tried* const chosen = leading();
    if (chosen != nullptr && chosen->plan() != nullptr) return with_alternatives(*chosen);
    return lacking(question_, builder_.policy(named), named);
  }

 private:
  /// The answer so far: the fastest, or the named policy's.
  const Tried* leading() const { return open_ ? fastest(tried_) : &tried_.front(); }

  const plan::Plan* fastest_plan() const {
    const Tried* const best = fastest(tried_);
    return best != nullptr ? best->plan() : nullptr;
  }

  plan::Plan with_alternatives(const Tried& chosen) {
    plan::Plan plan = *chosen.plan();
    require_valid(question_, plan);
    for (Tried& tried : tried_) {
      if (tried.plan() != nullptr) continue;
      const Lacking& lacking = without_plan_.at(tried.solver);
      tried.answer = shortage(room_, builder_.policy(lacking.policy), lacking.cut);
    }
    plan.alternatives = alternatives(tried_, chosen);
    return plan;
  }

  /// Cuts for a policy, best first.
  std::vector<Cut> cuts_for(const std::string& name, int most) {
    if (fixed_) return {*fixed_};
    if (!fits_ && !always_copies(name)) return {};
    StagePolicy& policy = builder_.policy(is_costly(name) ? "joint" : name);
    std::vector<Cut> cuts = CutSearch(room_, policy, name == "offload").candidates(most);
    const std::set<Cut> known(cuts.begin(), cuts.end());
    // Good cuts of earlier policies are tried, too.
    if (most == kCuts) {
      for (const Cut& cut : good_cuts_)
        if (!known.contains(cut)) cuts.push_back(cut);
    }
    return cuts;
  }

  /// The fastest plan on one of these cuts.
  Found best_of(const std::string& name, const std::vector<Cut>& cuts) {
    Found found;
    const bool copies = can_copy_ && always_copies(name);
    for (const Cut& cut : cuts) {
      if (copies) found.take(builder_.built(name, cut, How::kCopies), cut);
      // Programs with copies may exceed the budget where the leanest one without them fits.
      if (!copies || !found.plan) found.take(builder_.built(name, cut, How::kPlain), cut);
      if (name == "joint") found.take(builder_.built(name, cut, How::kChosen), cut);
      if (name == "joint" && room_.layers() <= kFewLayers) {
        // Among programs of equal time, those that keep inputs may hide more recomputation.
        auto plan = builder_.built("rotor", cut, How::kChosen);
        if (plan) plan->solver = name;
        found.take(std::move(plan), cut);
      }
    }
    return found;
  }

  /// Plans a policy with its best cut, and with the equal one if the cut is free. One stage has one
  /// cut, which labels do not name.
  void consider(const std::string& name, int most) {
    const std::vector<Cut> cuts = cuts_for(name, most);
    Found best = best_of(name, cuts), copied;
    if (!best.plan && !fixed_ && is_costly(name)) {
      // The cuts were joint's; the one for which this policy itself needs least may fit.
      if (const auto own = fitting_cut(room_, builder_.policy(name))) best = best_of(name, {*own});
    }
    if (name == "joint" && can_copy_) copied = joint_with_copies(room_, builder_, best, cuts);
    const bool copies_help = is_faster(copied, best);
    const std::string label = has_cuts_ ? name + ", best cut" : name;
    if (copies_help) add(label, name, copied, fixed_);
    add(copies_help ? "joint without copies" : label, name, best, fixed_);
    if (fixed_) return;
    const Found even = best_of(name, {even_});
    // The equal cut may win; then it is the best cut.
    if (is_faster(even, best)) tried_.back().answer = *even.plan;
    if (has_cuts_) add(name + ", equal cut", name, even, even_);
  }

  /// Plans the best of all uniform policies, on each of the two cuts.
  void consider_uniform() {
    const Cut given = fixed_.value_or(even_);
    Found best, equal;
    std::string best_name = kUniform, equal_name = kUniform;
    for (const std::string& name : uniform_policies(room_)) {
      if (equal.take(builder_.built(name, given, How::kPlain), given)) equal_name = name;
    }
    if (has_cuts_) {
      for (const auto& [step, name] : hopeful_uniform_policies()) {
        const Found found = best_of(name, cuts_for(name, kOtherCuts));
        if (best.take(found.plan, found.cut)) best_name = name;
      }
      if (best.take(equal.plan, even_)) best_name = equal_name;
      add(concat("best uniform (", best_name, "), best cut"), best_name, best, std::nullopt);
    }
    add(concat("best uniform (", equal_name, has_cuts_ ? "), equal cut" : ")"), equal_name, equal,
        given);
  }

  /// Uniform policies that fit, by their step on the cut with the least period or the equal one,
  /// whichever is faster; all of them for short chains, where every size is searched. Their very
  /// best cuts are not searched here.
  std::vector<std::pair<Seconds, std::string>> hopeful_uniform_policies() {
    std::vector<std::pair<Seconds, std::string>> ranked;
    for (std::string& name : fits_ ? uniform_policies(room_) : std::vector<std::string>()) {
      CutSearch search(room_, builder_.policy(name));
      Seconds step = search.step(even_, false);
      if (const auto cut = search.least_period()) step = std::min(step, search.step(*cut, false));
      if (step < kNever) ranked.emplace_back(step, std::move(name));
    }
    std::stable_sort(ranked.begin(), ranked.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    if (room_.layers() > kFewLayers) ranked.resize(std::min(ranked.size(), kSizes));
    return ranked;
  }

  /// Plans the best plan's cut with as few in flight as its stages need; taken if faster.
  void consider_in_flight() {
    const Tried* const best = leading();
    const plan::Plan* const usual = best != nullptr ? best->plan() : nullptr;
    auto plan = with_fewer_in_flight(room_, builder_, usual, fits_);
    if (!plan || (usual != nullptr && usual->step <= plan->step * (1 + kGain))) return;
    joint_step_ = std::min(joint_step_, plan->step);
    add_tried(tried_.begin(), "joint, fewer in flight", *std::move(plan));
  }

  /// Plans the best plan with several programs per stage; taken if faster.
  void consider_mixed() {
    const plan::Plan* best = nullptr;
    for (const Tried& one : tried_) {
      const plan::Plan* const plan = one.plan();
      if (plan != nullptr && can_be_mixed(*plan) && (best == nullptr || plan->step < best->step))
        best = plan;
      if (!open_) break;
    }
    if (best == nullptr) return;
    auto plan = with_mixed_programs(room_, builder_.policy("joint"), *best);
    if (!plan) return;
    plan->solver = "joint";
    add_tried(tried_.begin(), "joint, mixed programs", *std::move(plan));
  }

  /// Plans with the slow solvers that combine offload and recomputation, where there is something
  /// to gain.
  void consider_movers() {
    if (!can_copy_ || room_.layers() > kFewLayers) return;
    for (const char* const name : {"capuchin", "pofo"}) {
      const plan::Plan* const best = fastest_plan();
      if (best != nullptr && keeps_everything(*best)) return;
      consider(name, kCuts);
    }
  }

  /// Plans one rank with several stages; taken where it is enough faster than the best so far.
  /// Contiguous stages are a special case: their plan stands in where nothing faster is found. A
  /// plan that differs only in its numbers in flight is called madpipe only if that was asked for.
  void consider_madpipe() {
    if (question_.cut || !question_.in_flight.empty()) return;
    const auto place = open_ ? tried_.end() : tried_.begin();
    auto plan = shared_plan();
    const bool alone = plan && open_ && plan::has_rank_for_each_stage(*plan);
    if (open_ && !alone && !question_.shares_ranks) return;
    if (const plan::Plan* const best = fastest_plan(); !plan && best != nullptr) plan = *best;
    if (!plan) {
      without_plan_[kMadpipe] = {"joint", std::nullopt};
      return add_tried(place, kMadpipe, {});
    }
    plan->solver = alone ? "joint" : kMadpipe;
    add_tried(place, alone ? "joint, other numbers in flight" : kMadpipe, *std::move(plan));
    if (alone) consider_mixed();
  }

  /// A plan from scratch that beats the best of `joint` and of instant policies, so that the result
  /// does not depend on other policies and equals what `madpipe` finds by name.
  std::optional<plan::Plan> shared_plan() {
    StagePolicy& policy = builder_.policy("joint");
    auto plan = madpipe_plan(room_, policy, joint_step_, 0);
    if (!plan || !open_) return plan;
    const plan::Plan* const best = fastest_plan();
    const Seconds least = best != nullptr ? best->step : kNever;
    const double handicap = plan::has_rank_for_each_stage(*plan) ? 0 : kGainOfSharing;
    if (plan->step * (1 + handicap) < least) return plan;
    return madpipe_plan(room_, policy, least, kGainOfSharing);
  }

  /// Records the result of a policy; `only` is the cut it was limited to, empty for all.
  void add(const std::string& label, const std::string& policy, const Found& found,
           const std::optional<Cut>& only) {
    if (!found.plan) {
      without_plan_[label] = {policy, only};
      return add_tried(tried_.end(), label, {});
    }
    if (policy == "joint" || is_instant(policy))
      joint_step_ = std::min(joint_step_, found.plan->step);
    good_cuts_.insert(found.cut);
    add_tried(tried_.end(), label, *found.plan);
  }

  void add_tried(std::vector<Tried>::const_iterator place, const std::string& label,
                 decltype(Tried::answer) answer) {
    tried_.insert(place, {.solver = label, .answer = std::move(answer), .refused = {}});
  }

  const Question& question_;
  StageRoom room_;
  PlanBuilder builder_;
  const bool open_ = question_.solver == "auto";  // the solver
  const std::optional<Cut> fixed_ = fixed_cut(question_);
  const Cut even_ = equal_cut(room_.layers(), room_.stages());
  const bool has_cuts_ = !fixed_ && room_.stages() > 1;
  const bool can_copy_ =
      std::any_of(question_.platform.ranks.begin(), question_.platform.ranks.end(),
                  [](const chain::RankSpec& rank) { return rank.can_copy(); });
  /// Whether some cut fits with the schedule's numbers in flight and without copies. No such plan
  /// with a rank for each stage needs less than the leanest programs of "joint".
  bool fits_ = true;
  std::vector<Tried> tried_;
  /// Policies that found no plan; what they lack is computed once a plan needs it.
  struct Lacking {
    std::string policy;
    std::optional<Cut> cut;
  };
  std::map<std::string, Lacking> without_plan_;  // by label
  std::set<Cut> good_cuts_;                      // of policies planned so far
  Seconds joint_step_ = kNever;                  // of joint and of instant policies
};

}  // namespace

Answer plan_pipeline(const Question& question) {
  return Pipeline(question).answer();
}

}  // namespace trireme::partition
