// SPDX-License-Identifier: Apache-2.0
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/plan/plan.h"

#include <cmath>

namespace trireme::plan {
namespace {

/// Nothing where all updates are at the end.
std::string updates_text(const Plan& plan);
std::string stage_text(const StagePlan& stage);
/// `[["forward_tape", 1], ["forward_tape", 2]]`.
std::string actions_text(const std::vector<program::Action>& actions);
/// Nothing where there are none.
std::string streamed_text(const std::vector<int>& layers);
std::string clocks_text(const StagePlan& stage);
/// The programs in addition to the stage's own, and the cycle; nothing without a cycle.
std::string mix_text(const program::Mix& mix);
std::string prediction_text(const StagePrediction& predicted);
/// The passes of every rank: `"F0*2 B0*2"`.
std::vector<std::string> order_texts(const schedule::Order& order);
std::string alternative_text(const Alternative& alternative);
/// Nothing where there is none.
std::string advice_text(const std::vector<Advice>& advice);
std::string infeasible_text(const Infeasible& infeasible);

/// A number in JSON, which has neither infinity nor NaN.
std::string number(double value);
/// The texts, one per line and indented, in brackets.
std::string block(const std::vector<std::string>& texts);

}  // namespace

std::string to_json(const Plan& plan) {
  std::vector<std::string> stages;
  for (const StagePlan& stage : plan.stages) stages.push_back(stage_text(stage));
  std::vector<std::string> alternatives;
  for (const Alternative& other : plan.alternatives)
    alternatives.push_back(alternative_text(other));
  const std::vector<std::string> order = order_texts(plan.order);
  return concat(
      "{\"format\": \"trireme-plan/1\",\n \"chain\": {\"name\": ", io::json_text(plan.chain_name),
      ", \"digest\": ", io::json_text(plan.chain_digest),
      "},\n \"schedule\": ", io::json_text(plan.schedule),
      ",\n \"solver\": ", io::json_text(plan.solver), ",\n \"micro_batches\": ", plan.micro_batches,
      plan.lean_tapes ? ",\n \"tapes\": \"lean\"" : "",
      plan.weights_at_once == program::kLeastAtOnce
          ? ""
          : concat(",\n \"weights_at_once\": ", plan.weights_at_once),
      plan.group == 1 ? "" : concat(",\n \"group\": ", plan.group), updates_text(plan),
      plan.replicas == 1 ? "" : concat(",\n \"replicas\": ", plan.replicas),
      plan.optimizer_shards == 1 ? "" : concat(",\n \"optimizer_shards\": ", plan.optimizer_shards),
      ",\n \"predicted\": {\"step_s\": ", number(plan.step.count()),
      ", \"bubble\": ", number(plan.bubble), ", \"recompute_s\": ", number(plan.recompute.count()),
      plan.order_bound == Seconds(0)
          ? ""
          : concat(", \"order_bound_s\": ", number(plan.order_bound.count())),
      plan.energy == Joules(0) ? "" : concat(", \"energy_j\": ", number(plan.energy.count())),
      "},\n \"stages\": ", block(stages),
      order.empty() ? "" : concat(",\n \"order\": ", block(order)),
      ",\n \"alternatives\": ", block(alternatives), "}\n");
}

std::string to_json(const Infeasible& infeasible) {
  return concat("{\"infeasible\": ", infeasible_text(infeasible), "}\n");
}

namespace {

std::string updates_text(const Plan& plan) {
  if (plan.updates == program::UpdatePlace::kAtEnd) return "";
  return concat(",\n \"updates\": \"", program::name(plan.updates),
                "\", \"update_window_bytes\": ", plan.update_window.count());
}

std::string stage_text(const StagePlan& stage) {
  const program::StageProgram& program = stage.program;
  const std::string offloaded =
      stage.offloaded_optimizer == Bytes(0)
          ? ""
          : concat(", \"optimizer_away_bytes\": ", stage.offloaded_optimizer.count());
  return concat("{\"layers\": [", program.first_layer, ", ", program.last_layer,
                "], \"rank\": ", stage.rank, ", \"budget_bytes\": ", stage.budget.count(),
                ", \"static_bytes\": ", stage.static_bytes.count(), offloaded,
                streamed_text(stage.streamed), clocks_text(stage),
                ",\n   \"forward\": ", actions_text(program.forward),
                ",\n   \"backward\": ", actions_text(program.backward), mix_text(stage.mix),
                ",\n   \"predicted\": ", prediction_text(stage.predicted), "}");
}

std::string actions_text(const std::vector<program::Action>& actions) {
  std::string text = "[";
  for (const program::Action& action : actions) {
    if (text.size() > 1) text += ", ";
    text += concat("[\"", program::name(action.op), "\", ", action.layer, "]");
  }
  return text + "]";
}

std::string streamed_text(const std::vector<int>& layers) {
  if (layers.empty()) return "";
  std::vector<std::string> texts;
  for (const int layer : layers) texts.push_back(concat(layer));
  return concat(", \"streamed\": [", join(texts, ", "), "]");
}

std::string clocks_text(const StagePlan& stage) {
  std::string text;
  if (!stage.forward_clock.empty())
    text += concat(", \"forward_clock\": ", io::json_text(stage.forward_clock));
  if (!stage.backward_clock.empty())
    text += concat(", \"backward_clock\": ", io::json_text(stage.backward_clock));
  return text;
}

std::string mix_text(const program::Mix& mix) {
  if (mix.cycle.empty()) return "";
  std::vector<std::string> others, cycle;
  for (const program::StageProgram& other : mix.others)
    others.push_back(concat("{\"forward\": ", actions_text(other.forward),
                            ",\n    \"backward\": ", actions_text(other.backward), "}"));
  for (const int number : mix.cycle) cycle.push_back(concat(number));
  return concat(",\n   \"others\": [", join(others, ",\n    "), "],\n   \"cycle\": [",
                join(cycle, ", "), "]");
}

std::string prediction_text(const StagePrediction& predicted) {
  return concat("{\"forward_s\": ", number(predicted.forward.count()),
                ", \"backward_s\": ", number(predicted.backward.count()),
                ", \"kept_bytes\": ", predicted.kept.count(),
                ", \"peak_bytes\": ", predicted.peak.count(),
                ", \"offloaded_bytes\": ", predicted.offloaded.count(), "}");
}

std::vector<std::string> order_texts(const schedule::Order& order) {
  std::vector<std::string> texts;
  for (const std::vector<schedule::Pass>& passes : order)
    texts.push_back(io::json_text(schedule::to_text(passes)));
  return texts;
}

std::string alternative_text(const Alternative& alternative) {
  std::string text = concat("{\"policy\": ", io::json_text(alternative.policy));
  if (alternative.step) text += concat(", \"step_s\": ", number(alternative.step->count()));
  if (alternative.infeasible)
    text += concat(", \"infeasible\": ", infeasible_text(*alternative.infeasible));
  return text + "}";
}

std::string advice_text(const std::vector<Advice>& advice) {
  if (advice.empty()) return "";
  std::vector<std::string> texts;
  for (const Advice& one : advice)
    texts.push_back(concat(
        "{\"kind\": ", io::json_text(advice_kinds()[static_cast<std::size_t>(one.kind)]),
        ", \"bytes\": ", one.bytes.count(), ", \"change\": ", io::json_text(one.change), "}"));
  return concat(", \"advice\": [", join(texts, ", "), "]");
}

std::string infeasible_text(const Infeasible& infeasible) {
  return concat("{\"rank\": ", infeasible.rank, ", \"layers\": [", infeasible.first_layer, ", ",
                infeasible.last_layer, "], \"needed_bytes\": ", infeasible.needed.count(),
                ", \"available_bytes\": ", infeasible.available.count(),
                ", \"least_budget_bytes\": ", infeasible.least_budget.count(),
                infeasible.reason == Infeasible::Reason::kDeadline
                    ? concat(", \"least_step_s\": ", number(infeasible.least_step.count()))
                    : "",
                ", \"where\": ", io::json_text(infeasible.where), advice_text(infeasible.advice),
                "}");
}

std::string number(double value) {
  ensure(std::isfinite(value), "every prediction in a plan is a finite number");
  return to_text(value);
}

std::string block(const std::vector<std::string>& texts) {
  return texts.empty() ? "[]" : concat("[\n  ", join(texts, ",\n  "), "\n ]");
}

}  // namespace
}  // namespace trireme::plan
