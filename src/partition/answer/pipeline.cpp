// SPDX-License-Identifier: Apache-2.0
#include "pipeline.h"

#include "cut/advice.h"
#include "cut/cut_search.h"
#include "cut/fewer_in_flight.h"
#include "cut/found.h"
#include "cut/joint_copies.h"
#include "cut/mixed_programs.h"
#include "cut/plan_builder.h"
#include "cut/shortage.h"
#include "cut/uniform_sizes.h"
#include "judge/judge.h"
#include "placement/madpipe.h"
#include "stage/stage_policy.h"
#include "stage/stage_room.h"
#include "values/effort.h"

#include "trireme/core/text.h"
#include "trireme/partition/tried.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

namespace trireme::partition {
namespace {

/// Cuts that are simulated per policy: of the one that is asked for, and of the others.
constexpr int kCuts = 12;
constexpr int kOtherCuts = 3;
/// Uniform policies that are looked at closely, and the one that is named where none fits.
constexpr std::size_t kSizes = 2;
constexpr const char* kUniform = "uniform 2";
constexpr const char* kMadpipe = "madpipe";
/// Least gain of several stages on a rank, relative: they wait for one another wherever times are
/// not what was measured, more than the simulator knows.
constexpr double kGainOfSharing = 0.02;

class Pipeline {
 public:
  using How = PlanBuilder::How;
  explicit Pipeline(const Question& question)
      : question_(question), room_(question), builder_(room_) {}
  Answer answer();

 private:
  /// Cuts for a policy, best first.
  std::vector<Cut> cuts_for(const std::string& name, int most);
  /// Looks at a policy with its best cut, and with the equal one if the cut is free. One stage has
  /// one cut, which no label names.
  void consider(const std::string& name, int most);
  /// The same with the best of all uniform policies, for each of the two cuts.
  void consider_uniform();
  /// The fastest plan on one of these cuts.
  Found best_of(const std::string& name, const std::vector<Cut>& cuts);
  /// The best plan's cut with as many in flight as its stages need, where that is faster.
  void consider_in_flight();
  /// The best plan with several programs per stage, where that is faster.
  void consider_mixed();
  /// Solvers that move and run again at once, which take long; where there is something to gain.
  void consider_movers();
  /// One rank with several stages, where that is enough faster than the best so far.
  void consider_madpipe();
  /// The same from scratch, faster than the best of `joint` and what takes no time: what is found
  /// depends on what it has to be faster than, and shall be what is found by that name.
  std::optional<plan::Plan> shared_plan();
  void add(const std::string& label, const std::string& name, const Found& found);
  bool can_copy() const;
  /// Whether ranks with several stages are thought of without being asked for. More stages send
  /// more messages and look better than they are where those are free; and large questions take
  /// minutes.
  bool thinks_of_sharing() const;
  /// For `tried_`, what is lacking where a policy found nothing: counted once a plan needs it.
  void add_without_plan(const std::string& label, const std::string& name,
                        const std::optional<Cut>& cut);
  plan::Plan with_alternatives(const Tried& chosen);

  const Question& question_;
  StageRoom room_;
  PlanBuilder builder_;
  /// Whether some cut fits with the schedule's numbers in flight and without copies. No such plan
  /// with a rank for each stage needs less than the leanest programs of "joint".
  bool fits_ = true;
  std::vector<Tried> tried_;
  struct Lacking {
    std::string policy;
    std::optional<Cut> cut;
  };
  std::map<std::string, Lacking> without_plan_;  // by label
  std::set<Cut> good_cuts_;                      // of policies looked at so far
  double joint_step_ = kNever;                   // of joint, and of what is looked at beside it
};

/// Too slow to be asked about every stage that a cut could make.
bool is_costly(const std::string& name) {
  const std::optional<solve::Traits> traits = solve::traits_of(name);
  return traits && traits->growth > solve::Growth::kLength && !has_policy_of_its_own(name);
}

/// Of those whose labels begin with one of these.
double least_step(const std::vector<Tried>& tried, const std::vector<std::string>& labels) {
  double least = kNever;
  for (const Tried& one : tried) {
    const bool counts = std::any_of(labels.begin(), labels.end(), [&](const std::string& label) {
      return one.solver.starts_with(label);
    });
    if (counts && one.plan() != nullptr) least = std::min(least, one.plan()->step.count());
  }
  return least;
}

/// Whether the policy is asked with the ranks' links: always, never, or both.
bool always_copies(const std::string& name) {
  const std::optional<solve::Traits> traits = solve::traits_of(name);
  return traits && traits->moves;
}

}  // namespace

Answer plan_pipeline(const Question& question) {
  return Pipeline(question).answer();
}

namespace {

Answer Pipeline::answer() {
  const bool open = question_.solver == "auto";
  const bool spread = question_.solver == kMadpipe;
  const std::string named = open || spread ? "joint" : question_.solver;
  builder_.policy(named);  // throws if there is none
  if (named == "joint") fits_ = fits(room_, builder_.policy(named));
  for (const std::string other : {"keep_all", "recompute_all", "adapipe", "offload"}) {
    const bool instant = other == "keep_all" || other == "recompute_all";
    const bool moves = other == "offload";
    if (other == named || (moves && !can_copy())) continue;
    if (open || instant)
      consider(other, moves && room_.layers() <= kFewLayers ? kCuts : kOtherCuts);
  }
  if (open) consider_uniform();
  const std::size_t others = tried_.size();
  consider(named, kCuts);
  std::rotate(tried_.begin(), tried_.begin() + static_cast<std::ptrdiff_t>(others), tried_.end());
  if (named == "joint") consider_in_flight();
  joint_step_ = least_step(tried_, {"keep_all", "recompute_all", "joint"});
  if (open) consider_movers();
  if (named == "joint" && !spread) consider_mixed();
  if (room_.stages() > 1 && (spread || (open && thinks_of_sharing()))) consider_madpipe();
  // One rank has nothing to share: there madpipe is joint.
  if (spread && room_.stages() > 1) std::rotate(tried_.begin(), tried_.end() - 1, tried_.end());
  const Tried* const chosen = open ? fastest(tried_) : &tried_.front();
  if (chosen != nullptr && chosen->plan() != nullptr) return with_alternatives(*chosen);
  return lacking(question_, builder_.policy(named), named);
}

plan::Plan Pipeline::with_alternatives(const Tried& chosen) {
  plan::Plan plan = *chosen.plan();
  require_valid(question_, plan);
  for (Tried& tried : tried_) {
    if (tried.plan() != nullptr) continue;
    const Lacking& lacking = without_plan_.at(tried.solver);
    tried.answer = shortage(room_, builder_.policy(lacking.policy), lacking.cut).infeasible;
  }
  plan.alternatives = alternatives(tried_, chosen);
  return plan;
}

std::vector<Cut> Pipeline::cuts_for(const std::string& name, int most) {
  if (const auto fixed = fixed_cut(question_)) return {*fixed};
  if (!fits_ && !always_copies(name)) return {};
  std::vector<Cut> cuts =
      CutSearch(room_, builder_.policy(is_costly(name) ? "joint" : name), name == "offload")
          .candidates(most);
  const std::set<Cut> known(cuts.begin(), cuts.end());
  // The policies before this one keep their cuts only as far as they were good for them.
  if (most == kCuts) {
    for (const Cut& cut : good_cuts_)
      if (!known.contains(cut)) cuts.push_back(cut);
  }
  return cuts;
}

void Pipeline::consider(const std::string& name, int most) {
  const std::vector<Cut> cuts = cuts_for(name, most);
  const bool free_cut = !question_.cut, has_cuts = free_cut && room_.stages() > 1;
  const std::string label = has_cuts ? name + ", best cut" : name;
  Found best = best_of(name, cuts);
  if (!best.plan && free_cut && is_costly(name)) {
    // The cuts were joint's. That which this policy itself needs least for may do.
    if (const auto own = fitting_cut(room_, builder_.policy(name))) best = best_of(name, {*own});
  }
  if (name == "joint" && can_copy()) {
    Found copied = joint_with_copies(room_, builder_, best, cuts);
    if (copied.plan && (!best.plan || copied.plan->step < best.plan->step)) {
      add(label, name, copied);
      add("joint without copies", name, best);
    } else {
      add(label, name, best);
    }
  } else {
    add(label, name, best);
  }
  if (!free_cut) return;
  const std::size_t place = tried_.size() - 1;
  const Found even = best_of(name, {equal_cut(room_.layers(), room_.stages())});
  // The best cut may be the equal one; then it is the best of both.
  if (even.plan && (!best.plan || even.plan->step < best.plan->step))
    tried_[place].answer = *even.plan;
  if (has_cuts) add(name + ", equal cut", name, even);
}

void Pipeline::consider_uniform() {
  const Cut even = equal_cut(room_.layers(), room_.stages());
  const Cut given = fixed_cut(question_).value_or(even);
  Found best, equal;
  std::string best_name = kUniform, equal_name = kUniform;
  const std::vector<std::string> names = uniform_policies(room_);
  for (const std::string& name : names) {
    if (equal.take(builder_.built(name, given, How::kPlain), given)) equal_name = name;
  }
  const bool has_cuts = !question_.cut && room_.stages() > 1;
  if (has_cuts) {
    // Where there are few cuts, they are looked at for every size.
    const std::size_t most = room_.layers() <= kFewLayers ? names.size() : kSizes;
    const std::vector<std::string> hopeful =
        fits_ ? hopeful_uniform_policies(room_, builder_, most) : std::vector<std::string>();
    for (const std::string& name : hopeful) {
      const Found found = best_of(name, cuts_for(name, kOtherCuts));
      if (best.take(found.plan, found.cut)) best_name = name;
    }
    if (best.take(equal.plan, even)) best_name = equal_name;
    add(concat("best uniform (", best_name, "), best cut"), best_name, best);
  }
  equal.cut = given;
  add(concat("best uniform (", equal_name, has_cuts ? "), equal cut" : ")"), equal_name, equal);
}

// A faster plan takes the place of the first.
void Pipeline::consider_in_flight() {
  const Tried* const best = question_.solver == "auto" ? fastest(tried_) : &tried_.front();
  const plan::Plan* const usual = best != nullptr ? best->plan() : nullptr;
  std::optional<plan::Plan> plan;
  if (!fits_) plan = where_fewer_in_flight_fit(room_, builder_);
  if (fits_ && usual != nullptr) {
    plan = with_fewer_in_flight(room_, builder_, *usual);
    if (auto shared = with_faster_shared_counts(room_, builder_, plan ? *plan : *usual))
      plan = std::move(shared);
  }
  if (!plan || (usual != nullptr && usual->step <= plan->step * (1 + kGain))) return;
  Tried tried{.solver = "joint, fewer in flight", .answer = *std::move(plan), .refused = {}};
  tried_.insert(tried_.begin(), std::move(tried));
}

void Pipeline::consider_mixed() {
  const plan::Plan* best = nullptr;
  for (const Tried& one : tried_) {
    const plan::Plan* const plan = one.plan();
    if (plan != nullptr && can_be_mixed(*plan) && (best == nullptr || plan->step < best->step))
      best = plan;
    if (question_.solver != "auto") break;
  }
  if (best == nullptr) return;
  auto plan = with_mixed_programs(room_, builder_.policy("joint"), *best);
  if (!plan) return;
  plan->solver = "joint";
  Tried tried{.solver = "joint, mixed programs", .answer = *std::move(plan), .refused = {}};
  tried_.insert(tried_.begin(), std::move(tried));
}

void Pipeline::consider_movers() {
  if (!can_copy() || room_.layers() > kFewLayers) return;
  for (const char* const name : {"capuchin", "pofo"}) {
    const Tried* const best = fastest(tried_);
    if (best != nullptr && keeps_everything(*best->plan())) return;
    consider(name, kCuts);
  }
}

// What contiguous stages can do, one rank with several can too: their plan stands in where nothing
// faster is found. Where it only has other numbers in flight than the schedule, it is not called
// madpipe unless that was asked for.
void Pipeline::consider_madpipe() {
  if (question_.cut || !question_.in_flight.empty()) return;
  const Tried* const best = fastest(tried_);
  auto plan = shared_plan();
  const bool is_faster = plan.has_value();
  if (!plan && best != nullptr) plan = *best->plan();
  if (!plan) {
    add_without_plan(kMadpipe, "joint", std::nullopt);
    return;
  }
  Tried tried{.solver = kMadpipe, .answer = {}, .refused = {}};
  const bool alone =
      is_faster && question_.solver != kMadpipe && plan::has_rank_for_each_stage(*plan);
  if (alone) tried.solver = "joint, other numbers in flight";
  plan->solver = alone ? "joint" : kMadpipe;
  tried.answer = *std::move(plan);
  tried_.push_back(std::move(tried));
  if (alone) consider_mixed();
}

std::optional<plan::Plan> Pipeline::shared_plan() {
  StagePolicy& policy = builder_.policy("joint");
  const Tried* const best = fastest(tried_);
  const double least = best != nullptr ? best->plan()->step.count() : kNever;
  auto plan = madpipe_plan(room_, policy, joint_step_, 0);
  if (!plan || question_.solver == kMadpipe) return plan;
  const double handicap = plan::has_rank_for_each_stage(*plan) ? 0 : kGainOfSharing;
  if (plan->step.count() * (1 + handicap) < least) return plan;
  return madpipe_plan(room_, policy, least, kGainOfSharing);
}

Found Pipeline::best_of(const std::string& name, const std::vector<Cut>& cuts) {
  Found found;
  const bool copies = can_copy() && always_copies(name);
  for (const Cut& cut : cuts) {
    if (copies) found.take(builder_.built(name, cut, How::kCopies), cut);
    // Copies may overflow where the leanest program without them does not.
    if (!copies || !found.plan) found.take(builder_.built(name, cut, How::kPlain), cut);
    if (name == "joint") found.take(builder_.built(name, cut, How::kChosen), cut);
    if (name == "joint" && room_.layers() <= kFewLayers) {
      // Of programs that take equally long, those that keep inputs may hide more.
      auto plan = builder_.built("rotor", cut, How::kChosen);
      if (plan) plan->solver = name;
      found.take(std::move(plan), cut);
    }
    if (!found.plan) found.cut = cut;
  }
  return found;
}

void Pipeline::add(const std::string& label, const std::string& name, const Found& found) {
  if (!found.plan) {
    const bool one_cut = question_.cut || label.ends_with("equal cut");
    add_without_plan(label, name, one_cut ? std::optional(found.cut) : std::nullopt);
    return;
  }
  tried_.push_back({.solver = label, .answer = *found.plan, .refused = {}});
  good_cuts_.insert(found.cut);
}

void Pipeline::add_without_plan(const std::string& label, const std::string& name,
                                const std::optional<Cut>& cut) {
  tried_.push_back({.solver = label, .answer = {}, .refused = {}});
  without_plan_[label] = {name, cut};
}

bool Pipeline::can_copy() const {
  const auto& ranks = question_.platform.ranks;
  return std::any_of(ranks.begin(), ranks.end(),
                     [](const chain::RankSpec& rank) { return rank.can_copy(); });
}

bool Pipeline::thinks_of_sharing() const {
  return question_.platform.default_link.rate > BytesPerSecond(0) && !is_large(question_);
}

}  // namespace
}  // namespace trireme::partition
