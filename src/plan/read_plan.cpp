// SPDX-License-Identifier: Apache-2.0
#include "read_order.h"

#include "trireme/chain/platform.h"
#include "trireme/core/text.h"
#include "trireme/io/terminal.h"
#include "trireme/plan/plan.h"
#include "trireme/schedule/named.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

namespace trireme::plan {
namespace {

using program::Action;
using program::Op;

constexpr std::int64_t kMost = std::numeric_limits<int>::max();
constexpr double kMostJoules = 1e18;
constexpr Bytes kMaxFixed{std::int64_t{1} << 62};

/// Names of schedules in plans.
std::vector<std::string> schedules();
/// Predictions for a whole plan; all are optional.
void read_prediction(Plan& plan, const io::Node& node);
/// The stages in the order of their layers, without gaps.
std::vector<StagePlan> read_stages(const io::Node& node, std::vector<OldPasses>& old_passes);
StagePlan read_stage(const io::Node& node, OldPasses& old_passes);
/// Reads `others` and `cycle`, the programs in addition to the stage's own, if any.
void read_mix(io::MapReader& map, StagePlan& stage);
std::pair<int, int> read_layers(const io::Node& node);
/// Ascending layers of the stage.
std::vector<int> read_streamed(const io::Node& node, const program::StageProgram& stage);
std::vector<Action> read_actions(const io::Node& node, const program::StageProgram& stage);
Action read_action(const io::Node& node, const program::StageProgram& stage);
/// Whether the op may also name the stage's input x[first - 1], which may be dropped or moved too.
bool takes_input(Op op);
/// Ops of a stage's own program; lowering adds all others.
const std::vector<std::string>& stage_ops();
StagePrediction read_stage_prediction(const io::Node& node);

Alternative read_alternative(const io::Node& node);
Advice read_advice(const io::Node& node);

/// Reads `key` of the map into `value` where it is there.
void read(io::MapReader& map, std::string_view key, int& value);
void read(io::MapReader& map, std::string_view key, Bytes& value);
void read(io::MapReader& map, std::string_view key, Seconds& value);

}  // namespace

Plan load_plan(const std::filesystem::path& file) {
  return read_plan(io::load(file));
}

Plan read_plan(const io::Node& document) {
  io::MapReader map(document);
  map.required("format").choice({"trireme-plan/1"});
  Plan plan;
  io::MapReader chain(map.required("chain"));
  plan.chain_name = io::name_in(chain.required("name"));
  plan.chain_digest = chain.required("digest").text();
  chain.finish();
  plan.schedule = map.required("schedule").choice(schedules());
  if (const auto solver = map.optional("solver")) plan.solver = solver->text();
  plan.micro_batches = static_cast<int>(map.required("micro_batches").integer(1, kMaxMicroBatches));
  if (const auto tapes = map.optional("tapes"))
    plan.lean_tapes = tapes->choice({"full", "lean"}) == "lean";
  if (const auto count = map.optional("weights_at_once"))
    plan.weights_at_once =
        static_cast<int>(count->integer(program::kLeastAtOnce, chain::kMaxLayers));
  if (const auto group = map.optional("group"))
    plan.group = static_cast<int>(group->integer(1, plan.micro_batches));
  if (const auto updates = map.optional("updates"))
    plan.updates =
        program::update_place_named(updates->choice(program::update_place_names())).value();
  if (plan.updates != program::UpdatePlace::kAtEnd) plan.update_window = chain::kLargestStateWindow;
  read(map, "update_window_bytes", plan.update_window);
  if (const auto replicas = map.optional("replicas"))
    plan.replicas = static_cast<int>(replicas->integer(1, kMaxReplicas));
  if (const auto shards = map.optional("optimizer_shards"))
    plan.optimizer_shards = static_cast<int>(shards->integer(1, kMaxReplicas));
  if (const auto predicted = map.optional("predicted")) read_prediction(plan, *predicted);
  const io::Node stages = map.required("stages");
  const auto order = map.optional("order"), turns = map.optional("turns");
  const auto alternatives = map.optional("alternatives");
  map.finish();

  std::vector<OldPasses> old_passes;
  plan.stages = read_stages(stages, old_passes);
  if (!order && !schedule::has_usual_order(plan.schedule))
    document.fail_at("order", concat("is missing, which a plan with the schedule ", plan.schedule,
                                     " must have"));
  if (order)
    read_order(*order, old_passes, turns, plan);
  else
    read_old_order(old_passes, turns, stages, plan);
  if (alternatives) {
    for (const io::Node& node : alternatives->list())
      plan.alternatives.push_back(read_alternative(node));
  }
  return plan;
}

namespace {

std::vector<std::string> schedules() {
  std::vector<std::string> names = schedule::schedule_names();
  names.emplace_back("searched");
  return names;
}

void read_prediction(Plan& plan, const io::Node& node) {
  io::MapReader map(node);
  read(map, "step_s", plan.step);
  if (const auto bubble = map.optional("bubble")) plan.bubble = bubble->number(-1, 1);
  read(map, "recompute_s", plan.recompute);
  read(map, "order_bound_s", plan.order_bound);
  if (const auto energy = map.optional("energy_j"))
    plan.energy = Joules(energy->number(0, kMostJoules));
  map.finish();
}

std::vector<StagePlan> read_stages(const io::Node& node, std::vector<OldPasses>& old_passes) {
  struct Read {
    StagePlan stage;
    OldPasses old;
    io::Node place;
  };
  std::vector<Read> unsorted;
  for (const io::Node& element : node.list()) {
    OldPasses old;
    StagePlan stage = read_stage(element, old);
    unsorted.push_back({std::move(stage), std::move(old), element});
  }
  if (unsorted.empty()) node.fail("is an empty list, must have at least one stage");
  std::stable_sort(unsorted.begin(), unsorted.end(), [](const Read& a, const Read& b) {
    return a.stage.program.first_layer < b.stage.program.first_layer;
  });

  std::vector<StagePlan> stages;
  std::map<int, Bytes> budgets;
  int next = 1;
  Bytes fixed;
  for (auto& [stage, old, place] : unsorted) {
    for (const Bytes bytes : {stage.static_bytes, stage.offloaded_optimizer}) {
      if (bytes > kMaxFixed - fixed)
        place.fail(concat("brings static_bytes and optimizer_away_bytes to more than ",
                          kMaxFixed.count(), " in all, must be less"));
      fixed += bytes;
    }
    if (stage.program.first_layer != next)
      place.fail_at("layers",
                    concat("begins with ", stage.program.first_layer, ", must begin with ", next,
                           ": stages follow each other without gaps from layer 1"));
    next = stage.program.last_layer + 1;
    if (stage.rank < 0) stage.rank = static_cast<int>(stages.size());
    if (stage.rank >= chain::kMaxRanks)
      place.fail(concat("is stage ", stages.size(), " on a rank of its own, there are at most ",
                        chain::kMaxRanks));
    const Bytes budget = budgets.emplace(stage.rank, stage.budget).first->second;
    if (budget != stage.budget)
      place.fail(concat("has budget_bytes ", stage.budget.count(), ", but other layers of rank ",
                        stage.rank, " have ", budget.count(),
                        ": a rank has one budget, give the same to all"));
    old_passes.push_back(std::move(old));
    stages.push_back(std::move(stage));
  }
  return stages;
}

StagePlan read_stage(const io::Node& node, OldPasses& old_passes) {
  io::MapReader map(node);
  StagePlan stage;
  std::tie(stage.program.first_layer, stage.program.last_layer) =
      read_layers(map.required("layers"));
  stage.rank = -1;
  if (const auto rank = map.optional("rank"))
    stage.rank = static_cast<int>(rank->integer(0, chain::kMaxRanks - 1));
  old_passes.in_flight = map.optional("in_flight");
  read(map, "budget_bytes", stage.budget);
  read(map, "static_bytes", stage.static_bytes);
  read(map, "optimizer_away_bytes", stage.offloaded_optimizer);
  if (const auto streamed = map.optional("streamed"))
    stage.streamed = read_streamed(*streamed, stage.program);
  old_passes.weights_behind = map.optional("weights_behind");
  if (const auto clock = map.optional("forward_clock")) stage.forward_clock = io::name_in(*clock);
  if (const auto clock = map.optional("backward_clock")) stage.backward_clock = io::name_in(*clock);
  stage.program.forward = read_actions(map.required("forward"), stage.program);
  stage.program.backward = read_actions(map.required("backward"), stage.program);
  read_mix(map, stage);
  if (const auto predicted = map.optional("predicted"))
    stage.predicted = read_stage_prediction(*predicted);
  map.finish();
  return stage;
}

std::vector<int> read_streamed(const io::Node& node, const program::StageProgram& stage) {
  std::vector<int> layers;
  for (const io::Node& element : node.list()) {
    const auto layer = static_cast<int>(element.integer(stage.first_layer, stage.last_layer));
    if (!layers.empty() && layer <= layers.back())
      element.fail(concat("is ", layer, " after ", layers.back(), ", must be a later layer"));
    layers.push_back(layer);
  }
  return layers;
}

void read_mix(io::MapReader& map, StagePlan& stage) {
  const auto others = map.optional("others"), cycle = map.optional("cycle");
  if (others && !cycle) others->fail("needs `cycle`, too, which says which micro-batches run them");
  if (others) {
    for (const io::Node& element : others->list()) {
      io::MapReader parts(element);
      program::StageProgram& other = stage.mix.others.emplace_back(stage.program);
      other.forward = read_actions(parts.required("forward"), stage.program);
      other.backward = read_actions(parts.required("backward"), stage.program);
      parts.finish();
    }
  }
  if (!cycle) return;
  const auto last = static_cast<std::int64_t>(stage.mix.others.size());
  for (const io::Node& number : cycle->list())
    stage.mix.cycle.push_back(static_cast<int>(number.integer(0, last)));
  if (stage.mix.cycle.empty()) cycle->fail("is an empty list, must name a program");
}

std::pair<int, int> read_layers(const io::Node& node) {
  const std::vector<io::Node> ends = node.list();
  if (ends.size() != 2)
    node.fail(concat("has ", ends.size(), " entries, must be [first layer, last layer]"));
  const std::int64_t first = ends[0].integer(1, chain::kMaxLayers);
  return {static_cast<int>(first), static_cast<int>(ends[1].integer(first, chain::kMaxLayers))};
}

std::vector<Action> read_actions(const io::Node& node, const program::StageProgram& stage) {
  std::vector<Action> actions;
  for (const io::Node& element : node.list()) actions.push_back(read_action(element, stage));
  return actions;
}

Action read_action(const io::Node& node, const program::StageProgram& stage) {
  const std::vector<io::Node> parts = node.list();
  if (parts.size() != 2)
    node.fail(concat("has ", parts.size(),
                     " entries, must be [op, layer] such as [\"forward_tape\", ", stage.first_layer,
                     "]"));
  const Op op = *program::op_named(parts[0].choice(stage_ops()));
  const int least = stage.first_layer - (takes_input(op) ? 1 : 0);
  return {.op = op, .layer = static_cast<int>(parts[1].integer(least, stage.last_layer))};
}

bool takes_input(Op op) {
  return op == Op::kDrop || op == Op::kOffload || op == Op::kPrefetch;
}

const std::vector<std::string>& stage_ops() {
  static const std::vector<std::string> ops = [] {
    std::vector<std::string> names;
    for (const std::string& name : program::op_names())
      if (program::is_of_stage(*program::op_named(name))) names.push_back(name);
    return names;
  }();
  return ops;
}

StagePrediction read_stage_prediction(const io::Node& node) {
  io::MapReader map(node);
  StagePrediction predicted;
  read(map, "forward_s", predicted.forward);
  read(map, "backward_s", predicted.backward);
  read(map, "kept_bytes", predicted.kept);
  read(map, "peak_bytes", predicted.peak);
  read(map, "offloaded_bytes", predicted.offloaded);
  map.finish();
  return predicted;
}

Alternative read_alternative(const io::Node& node) {
  io::MapReader map(node);
  Alternative alternative;
  alternative.policy = map.required("policy").text();
  if (const auto step = map.optional("step_s")) alternative.step = step->seconds();
  if (const auto infeasible = map.optional("infeasible"))
    alternative.infeasible = read_infeasible(*infeasible);
  map.finish();
  return alternative;
}

Advice read_advice(const io::Node& node) {
  io::MapReader map(node);
  const std::vector<std::string>& kinds = advice_kinds();
  const std::string kind = map.required("kind").choice(kinds);
  Advice advice{.kind = static_cast<Advice::Kind>(std::find(kinds.begin(), kinds.end(), kind) -
                                                  kinds.begin()),
                .change = map.required("change").text()};
  read(map, "bytes", advice.bytes);
  map.finish();
  return advice;
}

void read(io::MapReader& map, std::string_view key, int& value) {
  if (const auto node = map.optional(key)) value = static_cast<int>(node->integer(0, kMost));
}

void read(io::MapReader& map, std::string_view key, Bytes& value) {
  if (const auto node = map.optional(key)) value = node->bytes();
}

void read(io::MapReader& map, std::string_view key, Seconds& value) {
  if (const auto node = map.optional(key)) value = node->seconds();
}

}  // namespace

Infeasible read_infeasible(const io::Node& node) {
  io::MapReader map(node);
  Infeasible infeasible;
  read(map, "rank", infeasible.rank);
  std::tie(infeasible.first_layer, infeasible.last_layer) = read_layers(map.required("layers"));
  infeasible.needed = map.required("needed_bytes").bytes();
  infeasible.available = map.required("available_bytes").bytes();
  infeasible.least_budget = map.required("least_budget_bytes").bytes();
  if (const auto step = map.optional("least_step_s")) {
    infeasible.reason = Infeasible::Reason::kDeadline;
    infeasible.least_step = step->seconds();
  }
  if (const auto where = map.optional("where")) infeasible.where = where->text();
  if (const auto advice = map.optional("advice"))
    for (const io::Node& one : advice->list()) infeasible.advice.push_back(read_advice(one));
  map.finish();
  return infeasible;
}

}  // namespace trireme::plan
