// SPDX-License-Identifier: Apache-2.0
#include "trireme/partition/planner.h"

#include "answer/one_stage.h"
#include "answer/pipeline.h"
#include "axes/groups.h"
#include "axes/idle_memory.h"
#include "axes/optimizer_place.h"
#include "axes/scouted_places.h"
#include "axes/update_place.h"
#include "axes/weights_behind.h"
#include "axes/weights_place.h"
#include "axes/widest_gap.h"
#include "stage/solver_store.h"
#include "values/at_once.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/partition/tried.h"

#include <algorithm>
#include <utility>

namespace trireme::partition {
namespace {

/// Of tables, which take most of the time of planning for a pipeline: a quick plan has so many
/// times fewer, down to so many.
constexpr int kFewerSlots = 4, kFewSlots = 100;
constexpr const char* kJoint = "joint";

/// Throws InputError where the question contradicts itself.
void require_sound(const Question& question);
/// Of a question with `streamed`, optimizer_copies and `group`.
Answer planned(const Question& question);
Answer planned_ungrouped(const Question& question);
Answer in_its_groups(const Question& question, const Planner& planner);
Answer plan_alone(const Question& question);
/// The same answer, its plan with the chain's name and digest: searches make many that nobody sees.
Answer for_chain(const chain::Chain& chain, Answer answer);
/// The same answer; throws InputError where the question's groups are why there is no plan.
Answer able_to_take_turns(Answer answer);
/// Whether a plan of one stage, whose solvers look at one micro-batch, may do better where the
/// copies of all of them are planned together.
bool may_gain_by_joint(const Question& question, const Answer& answer);
/// The plan with the shorter step, with the other one among its alternatives.
Answer faster(Answer first, Answer second);
/// Of all that is left open, what makes a step fastest.
Answer searched(const Question& question);
/// The best of the plans by `planner` with the optimizer's state and weights where they may be.
Answer with_best_places(const Question& question, const Planner& planner);
Question one_by_one(Question question);
/// Of all that is left open, what makes a step fastest whose backwards are whole.
Answer best_of_whole_backwards(const Question& question);
/// The same answer, its plan with gradients of weights behind where that is faster.
Answer put_behind(const Question& question, Answer answer);

}  // namespace

Answer plan(const Question& question) {
  require_sound(question);
  const Question stored = with_store(question);
  Answer answer = able_to_take_turns(with_split_backward(stored, best_of_whole_backwards));
  if (may_gain_by_joint(stored, answer)) {
    Question joint = stored;
    joint.solver = kJoint;
    answer = faster(std::move(answer), best_of_whole_backwards(joint));
  }
  return for_chain(question.chain, std::move(answer));
}

std::optional<Answer> quick_plan(const Question& question) {
  require_sound(question);
  std::optional<Question> asked = quicker(with_updates_among_passes(with_store(question)));
  if (!asked) return std::nullopt;
  if (!asked->weights_at_once) asked->weights_at_once = program::kLeastAtOnce;
  if (question.stages > 1 && question.slots > kFewSlots) {
    asked->slots = std::max(question.slots / kFewerSlots, kFewSlots);
    Answer answer = searched(*asked);
    if (std::holds_alternative<plan::Plan>(answer))
      return for_chain(question.chain, put_behind(question, std::move(answer)));
    asked->slots = question.slots;  // rounded up to fewer, nothing may fit any more
  }
  return for_chain(question.chain, put_behind(question, able_to_take_turns(searched(*asked))));
}

Tried try_alone(const Question& question, const std::string& solver) {
  require_sound(question);
  return try_to(solver, [&] {
    const auto alone = [&](const Question& placed) {
      return in_its_groups(placed,
                           [&](const Question& asked) { return answer_alone(asked, solver); });
    };
    const auto placed = [&](const Question& asked) { return with_best_places(asked, alone); };
    const auto search = [&](const Question& asked) {
      return with_best_group(asked, placed, alone);
    };
    Question asked = one_by_one(with_store(question));
    asked.solver = solver;
    Answer answer = with_best_updates(asked, [&](const Question& updated) {
      return with_scouted_places(updated, search, alone);
    });
    return for_chain(question.chain, std::move(answer));
  });
}

namespace {

bool may_gain_by_joint(const Question& question, const Answer& answer) {
  const auto* const plan = std::get_if<plan::Plan>(&answer);
  if (plan == nullptr || question.stages > 1 || question.solver != "auto") return false;
  return question.platform.ranks.front().can_copy() &&
         plan->step > ideal_step(question) * kNearIdeal;
}

Answer faster(Answer first, Answer second) {
  auto *one = std::get_if<plan::Plan>(&first), *other = std::get_if<plan::Plan>(&second);
  if (other == nullptr) return first;
  if (other->step < one->step) std::swap(one, other);
  one->alternatives.push_back({.policy = other->solver, .step = other->step, .infeasible = {}});
  return std::move(*one);
}

Answer for_chain(const chain::Chain& chain, Answer answer) {
  if (auto* const plan = std::get_if<plan::Plan>(&answer)) {
    plan->chain_name = chain.name;
    plan->chain_digest = chain::digest(chain);
  }
  return answer;
}

Answer able_to_take_turns(Answer answer) {
  const auto* const infeasible = std::get_if<plan::Infeasible>(&answer);
  if (infeasible != nullptr && infeasible->reason == plan::Infeasible::Reason::kTurns)
    throw InputError(concat("group: ", where_and_advice(*infeasible)));
  return answer;
}

Answer searched(const Question& question) {
  const auto placed = [](const Question& asked) { return with_best_places(asked, planned); };
  return with_best_group(question, placed, planned);
}

Answer with_best_places(const Question& question, const Planner& planner) {
  const auto with_state_placed = [&](const Question& asked) {
    return asked.optimizer_copies ? planner(asked) : with_best_copies(asked, planner);
  };
  const auto with_weights_placed = [&] {
    if (!question.streamed) return with_best_streams(question, with_state_placed);
    return question.weights_at_once ? with_state_placed(question)
                                    : with_best_at_once(question, with_state_placed);
  };
  return with_idle_memory_used(question, with_weights_placed(), planner);
}

Answer best_of_whole_backwards(const Question& question) {
  return with_best_updates(question, [](const Question& updated) {
    return with_scouted_places(updated, searched, planned);
  });
}

Answer put_behind(const Question& question, Answer answer) {
  const auto* const plan = std::get_if<plan::Plan>(&answer);
  auto behind = plan == nullptr ? std::nullopt : with_weights_behind(question, *plan);
  return behind ? Answer(*std::move(behind)) : std::move(answer);
}

/// One stage waits for nobody: GPipe would only hold all micro-batches at once. The bits are the
/// same.
Question one_by_one(Question question) {
  question.schedule = "1f1b";
  return question;
}

Answer planned(const Question& question) {
  return in_its_groups(question, planned_ungrouped);
}

Answer in_its_groups(const Question& question, const Planner& planner) {
  return question.group.value() == 1 ? planner(question) : plan_in_groups(question, planner);
}

Answer planned_ungrouped(const Question& question) {
  if (question.stages > 1) return plan_pipeline(question);
  const Question alone = one_by_one(question);
  return is_joint(alone.solver) ? plan_pipeline(alone) : plan_alone(alone);
}

void require_sound(const Question& question) {
  const int layers = question.chain.length();
  if (question.schedule != "1f1b" && question.schedule != "gpipe")
    throw InputError(
        concat("schedule: found '", question.schedule, "', expected '1f1b' or 'gpipe'"));
  ensure(question.micro_batches >= 1, "a step has a micro-batch");
  if (const auto reason =
          simulate::too_large(question.chain, question.platform, question.micro_batches,
                              static_bytes(question.chain, 1, layers)))
    throw InputError(*reason);
  if (question.stages < 1 || question.stages > layers)
    throw InputError(concat("stages: found ", question.stages, ", but the chain has ", layers,
                            " layers and every stage needs one; use 1 to ", layers));
  if (static_cast<std::size_t>(question.stages) > question.platform.ranks.size())
    throw InputError(concat("stages: found ", question.stages, ", but the platform has ",
                            question.platform.ranks.size(), " ranks; every stage needs its own"));
  if (question.group && (*question.group < 1 || *question.group > question.micro_batches))
    throw InputError(concat("group: found ", *question.group, ", expected 1 to ",
                            question.micro_batches, ", as many micro-batches as a step has"));
  const std::vector<int>& counts = question.in_flight;
  if (!counts.empty() && (static_cast<int>(counts.size()) != question.stages ||
                          !std::is_sorted(counts.rbegin(), counts.rend()) || counts.back() < 1))
    throw InputError(
        "in_flight: expected one number for each stage, at least 1 and none more than "
        "the one before it");
  if (question.solver == "madpipe" && (question.cut || !counts.empty()))
    throw InputError(
        "solver 'madpipe': chooses how many stages there are and between which layers they end; "
        "leave cut and in_flight to it, or use 'joint'");
  if (!question.cut) return;
  const std::vector<int>& cut = *question.cut;
  if (static_cast<int>(cut.size()) != question.stages - 1)
    throw InputError(concat("cut: has ", cut.size(), " places, must have ", question.stages - 1,
                            ": one fewer than there are stages"));
  int before = 0;
  for (const int last : cut) {
    if (last <= before || last >= layers)
      throw InputError(concat("cut: found layer ", last, ", expected ascending layers within ",
                              before + 1, "..", layers - 1));
    before = last;
  }
}

Answer plan_alone(const Question& question) {
  const bool named = question.solver != "auto";
  std::vector<std::string> solvers = named ? instant_solvers(question) : quick_solvers(question);
  if (named) {
    std::erase(solvers, question.solver);
    solvers.insert(solvers.begin(), question.solver);
  }
  std::vector<Tried> tried(solvers.size());
  each_at_once(solvers.size(), [&](std::size_t k) { tried[k] = try_solver(question, solvers[k]); });
  if (named && !tried.front().refused.empty()) throw InputError(tried.front().refused);
  const Tried* const chosen = named ? &tried.front() : fastest(tried);
  if (chosen != nullptr && chosen->plan() != nullptr) {
    plan::Plan plan = *chosen->plan();
    plan.alternatives = alternatives(tried, *chosen);
    return plan;
  }
  const Tried* const why = named ? &tried.front() : leanest(tried);
  if (why == nullptr) throw InputError(tried.front().refused);
  plan::Infeasible infeasible = *why->infeasible();
  if (!named) infeasible.where = concat(why->solver, ", the leanest; ", infeasible.where);
  return infeasible;
}

}  // namespace
}  // namespace trireme::partition
