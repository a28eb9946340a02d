// Breadth-first groups of micro-batches on ranks that stream weights: weights are copied once per
// group and use, while the values kept between layers are held for the whole group.
//
// To the solvers a group is one large micro-batch of another chain, in which outputs and times are
// multiplied by the group size and transients are not. Plans are carried over to single
// micro-batches as they run, and simulated as such.
// SPDX-License-Identifier: Apache-2.0
#include "answers.h"
#include "cut/in_flight.h"
#include "judge/judge.h"
#include "values/cut.h"
#include "values/parallel_for.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/program/groups.h"
#include "trireme/program/retape.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

namespace trireme::partition {
namespace {

/// What a group keeps of its layers until their backward.
enum class Kept { kInputs, kTapes };

/// Attempts with lower budgets when a plan is over its budget as it runs.
constexpr int kTries = 3;

Bytes times(int group, Bytes bytes) {
  return Bytes(group * bytes.count());
}

/// Costs of a layer for a whole group. Transients are those of one micro-batch; so are the last
/// layer's output and tape, whose backward follows at once.
chain::LayerCost for_group(const chain::LayerCost& layer, bool is_last, int group, Kept kept) {
  chain::LayerCost all = layer;
  all.forward = layer.forward * group;
  all.backward = layer.backward * group;
  if (is_last) return all;
  all.output = times(group, layer.output);
  all.retape = layer.again();
  all.retape->time = all.retape->time * group;
  if (kept == Kept::kTapes) {
    all.tape = times(group, layer.tape);
    all.tape_stays = times(group, layer.tape_stays);
    return all;
  }
  // Every tape is made right before its backward: its time is counted with the backward, so that no
  // solver keeps one to save it.
  all.backward += std::exchange(all.retape->time, Seconds(0));
  all.tape = std::max(layer.tape, all.output);
  return all;
}

/// The question in which each micro-batch is a group.
Question of_groups(const Question& question, Kept kept) {
  const int group = question.group.value();
  Question asked = with_more_as_budget(question);
  asked.group = 1;
  asked.micro_batches = program::groups_of(question.micro_batches, group);
  asked.chain.input = times(group, question.chain.input);
  asked.platform.channel_buffers /= group;  // those of one micro-batch
  const int last = question.chain.length();
  for (int i = 1; i <= last; ++i)
    asked.chain.layers[static_cast<std::size_t>(i) - 1] =
        for_group(question.chain.layer(i), i == last, group, kept);
  return asked;
}

/// The program of each micro-batch of a group.
program::StageProgram carried_over(const Question& question, program::StageProgram program,
                                   Kept kept) {
  program = program::with_whole_tapes(std::move(program));
  if (kept == Kept::kInputs) program = program::with_late_tapes(std::move(program));
  return program::with_retapes(std::move(program), question.chain);
}

/// The plan for groups, carried over to micro-batches.
plan::Plan carried_over(const Question& question, plan::Plan plan, Kept kept) {
  plan.micro_batches = question.micro_batches;
  plan.group = question.group.value();
  plan.alternatives.clear();
  for (plan::StagePlan& stage : plan.stages) {
    stage.program = carried_over(question, std::move(stage.program), kept);
    for (program::StageProgram& other : stage.mix.others)
      other = carried_over(question, std::move(other), kept);
  }
  return plan;
}

/// Excess of every rank over its budget, in a step or a validation. Empty if the plan cannot run: a
/// tape's input is released while the tape waits, or messages of whole groups wait for one another.
std::optional<std::vector<Bytes>> excess_of(const Question& question, const plan::Plan& plan) {
  const simulate::Setting setting = setting_of(question, plan);
  std::vector<Bytes> most(question.platform.ranks.size());
  for (const program::Program& program :
       {plan::compile(plan, question.chain), validation_of(question, plan)}) {
    const auto simulation = simulate::simulate(program, setting, simulate::Detail::kFigures);
    if (simulation.fault) return std::nullopt;
    const std::vector<Bytes> over = excess(question, simulation);
    for (std::size_t rank = 0; rank < over.size(); ++rank)
      most[rank] = std::max(most[rank], over[rank]);
  }
  return most;
}

/// Why the plan is infeasible, from its excess as it runs.
plan::Infeasible lacking(const Question& question, const plan::Plan& plan,
                         const std::vector<Bytes>& excess) {
  const auto rank =
      static_cast<std::size_t>(std::max_element(excess.begin(), excess.end()) - excess.begin());
  plan::Infeasible lacks{.rank = static_cast<int>(rank),
                         .last_layer = question.chain.length(),
                         .available = question.platform.ranks[rank].memory,
                         .where = concat(plan.solver, ", as its groups run")};
  lacks.needed = lacks.least_budget = lacks.available + excess[rank];
  for (const plan::StagePlan& stage : plan.stages) {
    if (stage.rank != lacks.rank) continue;
    lacks.first_layer = stage.program.first_layer;
    lacks.last_layer = stage.program.last_layer;
  }
  return lacks;
}

/// Returns false where a rank would have no budget left.
bool lower_budgets(Question& question, const std::vector<Bytes>& by) {
  for (std::size_t rank = 0; rank < by.size(); ++rank) {
    Bytes& memory = question.platform.ranks[rank].memory;
    if (by[rank] > Bytes(0) && by[rank] >= memory) return false;
    memory -= by[rank];
  }
  return true;
}

/// The plan of groups that keep `kept`, within the budgets, or what it lacks; empty where no plan
/// was found that can run.
std::optional<Answer> plan_that_keeps(Kept kept, const Question& question, const Planner& plan) {
  Question asked = of_groups(question, kept);
  std::optional<Answer> lacks;
  for (int k = 0; k < kTries; ++k) {
    Answer answer = plan(asked);
    auto* const found = std::get_if<plan::Plan>(&answer);
    if (found == nullptr) return lacks ? std::move(lacks) : std::optional(std::move(answer));
    const plan::Plan as_it_runs = carried_over(question, std::move(*found), kept);
    if (auto made = on_budgets(question, as_it_runs)) {
      for (plan::StagePlan& stage : made->stages) {
        const Bytes peak = stage.predicted.peak;
        stage.predicted = predicted_alone(question, stage);
        stage.predicted.peak = peak;
      }
      return *std::move(made);
    }
    const auto excess = excess_of(question, as_it_runs);
    if (!excess || *std::max_element(excess->begin(), excess->end()) == Bytes(0))
      return std::nullopt;
    lacks = lacking(question, as_it_runs, *excess);
    if (!lower_budgets(asked, *excess)) break;
  }
  return lacks;
}

/// Groups that keep tapes on the cut of `other`: where those of the fastest cut would deadlock,
/// these may not.
std::optional<Answer> that_keep_tapes_on(const plan::Plan& other, const Question& question,
                                         const Planner& plan) {
  if (question.cut || std::cmp_not_equal(other.stages.size(), question.stages) ||
      question.stages == 1)
    return std::nullopt;
  Question asked = question;
  asked.cut = cut_of(other);
  asked.cut->pop_back();
  return plan_that_keeps(Kept::kTapes, asked, plan);
}

/// The answer where all plans that were made would deadlock.
plan::Infeasible none_runs(const Question& question) {
  return {.reason = plan::Infeasible::Reason::kTurns,
          .last_layer = question.chain.length(),
          .available = question.platform.ranks.front().memory,
          .where = concat(
              "found ", *question.group,
              ", but with groups of that size ranks wait for each other in a circle in every plan "
              "that was tried; use smaller groups, or leave the size to the planner")};
}

/// The faster of groups that keep inputs and groups that keep tapes; empty where all plans would
/// deadlock.
std::optional<Answer> fastest_that_runs(const Question& question, const Planner& plan) {
  std::array<std::optional<Answer>, 2> answers;
  parallel_for(answers.size(), [&](std::size_t k) {
    answers[k] = plan_that_keeps(k == 0 ? Kept::kInputs : Kept::kTapes, question, plan);
  });
  const auto* const late = answers[0] ? std::get_if<plan::Plan>(&*answers[0]) : nullptr;
  if (!answers[1] && late != nullptr) answers[1] = that_keep_tapes_on(*late, question, plan);
  std::optional<plan::Plan> fastest;
  std::optional<plan::Infeasible> leanest;
  for (std::optional<Answer>& answer : answers) {
    if (!answer) continue;
    if (auto* const lacks = std::get_if<plan::Infeasible>(&*answer)) {
      if (!leanest || lacks->least_budget < leanest->least_budget) leanest = std::move(*lacks);
      continue;
    }
    auto& made = std::get<plan::Plan>(*answer);
    if (!fastest || made.step < fastest->step) fastest = std::move(made);
  }
  if (fastest) return *std::move(fastest);
  if (leanest) return *std::move(leanest);
  return std::nullopt;
}

}  // namespace

Answer plan_in_groups(const Question& question, const Planner& plan) {
  ensure(question.group.value() > 1, "a group is more than one micro-batch");
  std::optional<Answer> answer = fastest_that_runs(question, plan);
  // A stream holds few messages: with fewer groups in flight, fewer of them block one another.
  for (const int size : sizes_that_share_a_count(question)) {
    if (answer) break;
    answer = fastest_that_runs(with_shared_counts(question, size), plan);
  }
  return answer ? *std::move(answer) : none_runs(question);
}

}  // namespace trireme::partition
