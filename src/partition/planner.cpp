// SPDX-License-Identifier: Apache-2.0
#include "trireme/partition/planner.h"

#include "answer/answers.h"
#include "axes/choices.h"
#include "axes/solvers.h"
#include "search/search.h"
#include "stage/solver_store.h"
#include "values/parallel_for.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/partition/tried.h"
#include "trireme/schedule/named.h"

#include <algorithm>
#include <utility>

namespace trireme::partition {
namespace {

/// Quick plans for a pipeline use this many times fewer table slots, down to the minimum: tables
/// take most of the planning time.
constexpr int kFewerSlots = 4, kFewSlots = 100;

/// Throws InputError where several chunks on a rank meet what they are not combined with.
void require_chunks(const Question& question);
/// Throws InputError where the question contradicts itself.
void require_sound(const Question& question);
Answer proposed(const Question& question);
Answer plan_alone(const Question& question);
/// The answer with the chain's name and digest in its plan; done once, since searches make many
/// plans.
Answer for_chain(const chain::Chain& chain, Answer answer);
/// The answer; throws InputError where the question's group size is why there is no plan.
Answer able_to_take_turns(Answer answer);
/// The search's answer, as plan() and explained_plan() return it.
Answer whole_answer(const chain::Chain& chain, Search& search);
Explained explained(const chain::Chain& chain, Search& search);
Question one_by_one(Question question);

}  // namespace

Answer plan(const Question& question) {
  require_sound(question);
  const Question stored = with_store(question);
  Search search(stored, proposed);
  return whole_answer(question.chain, search);
}

Explained explained_plan(const Question& question) {
  require_sound(question);
  const Question stored = with_store(question);
  Search search(stored, proposed);
  return explained(question.chain, search);
}

Explored explored_plan(const Question& question) {
  require_sound(question);
  const Question stored = with_store(question);
  Search search(stored, proposed);
  Explained found = explained(question.chain, search);
  return {std::move(found), search.plans()};
}

std::optional<Answer> quick_plan(const Question& question) {
  require_sound(question);
  if (!has_quick_solvers(question)) return std::nullopt;
  Question asked = with_store(question);
  asked.quick = true;
  if (!asked.weights_at_once) asked.weights_at_once = program::kLeastAtOnce;
  if (question.stages > 1 && question.slots > kFewSlots) {
    asked.slots = std::max(question.slots / kFewerSlots, kFewSlots);
    Answer answer = Search(asked, proposed).best();
    if (std::holds_alternative<plan::Plan>(answer))
      return for_chain(question.chain, std::move(answer));
    asked.slots = question.slots;  // rounded up to fewer, nothing may fit any more
  }
  Search search(asked, proposed);
  return whole_answer(question.chain, search);
}

Tried try_alone(const Question& question, const std::string& solver) {
  require_sound(question);
  return try_to(solver, [&] {
    Question asked = one_by_one(with_store(question));
    asked.solver = solver;
    const Planner alone = [&](const Question& settled) { return answer_alone(settled, solver); };
    return for_chain(question.chain, Search(asked, alone).best());
  });
}

namespace {

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

Answer whole_answer(const chain::Chain& chain, Search& search) {
  return for_chain(chain, able_to_take_turns(search.best()));
}

Explained explained(const chain::Chain& chain, Search& search) {
  Answer answer = whole_answer(chain, search);
  return {std::move(answer), search.reasons()};
}

/// With one stage there are no waits: GPipe would only hold all micro-batches at once, with the
/// same bits.
Question one_by_one(Question question) {
  question.schedule = "1f1b";
  return question;
}

Answer proposed(const Question& question) {
  if (question.stages > 1 && question.chunks != kNoChunks) return plan_chunked(question);
  if (question.stages > 1) return plan_pipeline(question);
  const Question alone = one_by_one(question);
  return is_joint(alone.solver) ? plan_pipeline(alone) : plan_alone(alone);
}

void require_sound(const Question& question) {
  const int layers = question.chain.length();
  if (!schedule::has_usual_order(question.schedule))
    throw InputError(
        concat("schedule: found '", question.schedule, "', expected '1f1b' or 'gpipe'"));
  ensure(question.micro_batches >= 1, "a step has a micro-batch");
  require_chunks(question);
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
    throw InputError(concat("cut: has ", cut.size(), " entries, must have ", question.stages - 1,
                            ": one fewer than there are stages"));
  int before = 0;
  for (const int last : cut) {
    if (last <= before || last >= layers)
      throw InputError(concat("cut: found layer ", last, ", expected ascending layers within ",
                              before + 1, "..", layers - 1));
    before = last;
  }
}

void require_chunks(const Question& question) {
  if (!has_named_schedule(question)) return;
  const schedule::NamedSchedule* const named = schedule::find_schedule(question.chunks);
  if (named == nullptr)
    throw InputError(concat("chunks: found '", question.chunks, "', expected 'none', 'auto', ",
                            enumerated(schedule::schedule_names())));
  const auto refuse = [&](std::string_view key, std::string_view remedy) {
    throw InputError(
        concat(key, ": is not combined with the schedule ", named->name, "; ", remedy));
  };
  if (question.solver == "madpipe") refuse("solver 'madpipe'", "use 'joint', or 1f1b");
  if (question.cut) refuse("cut", "leave it out, or use 1f1b");
  if (!question.in_flight.empty()) refuse("in_flight", "leave it out, or use 1f1b");
  if (question.group.value_or(1) > 1) refuse("group", "use 1, or 1f1b");
  if (question.updates.value_or(program::UpdatePlace::kAtEnd) != program::UpdatePlace::kAtEnd)
    refuse("updates", "use at_end, or 1f1b");
}

Answer plan_alone(const Question& question) {
  const bool named = question.solver != "auto";
  std::vector<std::string> solvers = named ? instant_solvers(question) : quick_solvers(question);
  if (named) {
    std::erase(solvers, question.solver);
    solvers.insert(solvers.begin(), question.solver);
  }
  std::vector<Tried> tried(solvers.size());
  parallel_for(solvers.size(), [&](std::size_t k) { tried[k] = try_solver(question, solvers[k]); });
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
