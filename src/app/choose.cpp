// SPDX-License-Identifier: Apache-2.0
#include "choose.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/report/text.h"
#include "trireme/solve/solve.h"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <limits>

namespace trireme::app {
namespace {

Seconds now() {
  return Seconds(
      std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

/// What a solver's time grows with.
enum class Effort {
  kNone,    ///< the chain's length, or its square
  kTables,  ///< its cube, times the slots
  kSearch,  ///< the number of programs
};
Effort effort_of(const std::string& solver);
bool moves(const std::string& solver);
bool can_move(const chain::RankSpec& rank);
/// Layers up to which tables take no time either.
constexpr int kFewLayers = 200;
/// Layers beyond which they take minutes.
constexpr int kManyLayers = 1000;

Tried try_one(const OneRank& question, const std::string& solver);
std::vector<std::string> row_of(const Tried& tried, Seconds ideal);

}  // namespace

std::vector<std::string> quick_solvers(const OneRank& question) {
  std::vector<std::string> names = solve::solver_names();
  std::erase_if(names, [&](const std::string& name) {
    return effort_of(name) == Effort::kSearch || (moves(name) && !can_move(question.rank()));
  });
  if (question.chain.length() <= kManyLayers) return names;
  const auto slow = std::stable_partition(names.begin(), names.end(), [](const std::string& name) {
    return effort_of(name) == Effort::kNone;
  });
  std::cerr << "left out, " << question.chain.length() << " layers would take them minutes: "
            << join(std::vector<std::string>(slow, names.end()), ", ")
            << "; --solver NAME asks one of them\n";
  names.erase(slow, names.end());
  return names;
}

std::vector<std::string> instant_solvers(const OneRank& question) {
  std::vector<std::string> names = solve::solver_names();
  std::erase_if(names, [&](const std::string& name) {
    if (moves(name)) return effort_of(name) != Effort::kNone || !can_move(question.rank());
    return effort_of(name) == Effort::kSearch ||
           (effort_of(name) == Effort::kTables && question.chain.length() > kFewLayers);
  });
  return names;
}

std::vector<Tried> try_all(const OneRank& question, const std::vector<std::string>& solvers) {
  std::vector<Tried> tried;
  for (const std::string& solver : solvers) tried.push_back(try_one(question, solver));
  return tried;
}

const Tried* fastest(const std::vector<Tried>& tried) {
  constexpr double kSame = 1 + 1e-9;  // sums of the same times in another order
  Seconds least(std::numeric_limits<double>::infinity());
  for (const Tried& one : tried) {
    if (one.plan() != nullptr) least = std::min(least, one.plan()->step);
  }
  const auto moved = [](const Tried& one) { return one.plan()->stages[0].predicted.offloaded; };
  const Tried* best = nullptr;
  for (const Tried& one : tried) {
    if (one.plan() == nullptr || one.plan()->step > least * kSame) continue;
    if (best == nullptr || moved(one) < moved(*best)) best = &one;
  }
  return best;
}

const Tried* leanest(const std::vector<Tried>& tried) {
  const Tried* best = nullptr;
  for (const Tried& one : tried) {
    const plan::Infeasible* infeasible = one.infeasible();
    if (infeasible != nullptr &&
        (best == nullptr || infeasible->least_budget < best->infeasible()->least_budget))
      best = &one;
  }
  return best;
}

std::vector<plan::Alternative> alternatives(const std::vector<Tried>& tried, const Tried& chosen) {
  std::vector<plan::Alternative> others;
  for (const Tried& one : tried) {
    if (&one == &chosen) continue;
    if (const plan::Plan* plan = one.plan())
      others.push_back({.policy = one.solver, .step = plan->step, .infeasible = {}});
    if (const plan::Infeasible* infeasible = one.infeasible())
      others.push_back({.policy = one.solver, .step = {}, .infeasible = *infeasible});
  }
  return others;
}

std::string comparison(const std::vector<Tried>& tried, const OneRank& question) {
  const Seconds ideal = ideal_step(question);
  std::vector<std::vector<std::string>> rows{
      {"solver", "step", "overhead", "peak", "recompute", "moved", "solved in", "needs"}};
  for (const Tried& one : tried) rows.push_back(row_of(one, ideal));
  return table(rows);
}

namespace {

Effort effort_of(const std::string& solver) {
  if (solver == "exhaustive" || solver == "milp") return Effort::kSearch;
  for (const char* const name :
       {"keep_all", "recompute_all", "periodic", "sqrt", "capuchin", "revolve", "min_peak"}) {
    if (solver == name) return Effort::kNone;
  }
  return Effort::kTables;
}

bool moves(const std::string& solver) {
  return solver == "capuchin" || solver == "offload" || solver == "pofo";
}

bool can_move(const chain::RankSpec& rank) {
  return rank.out > BytesPerSecond(0) && rank.in > BytesPerSecond(0);
}

Tried try_one(const OneRank& question, const std::string& solver) {
  Tried tried{.solver = solver, .answer = {}, .refused = {}, .solving = {}};
  const Seconds begin = now();
  try {
    Answer found = answer(question, solver);
    if (auto* plan = std::get_if<plan::Plan>(&found)) tried.answer = std::move(*plan);
    if (auto* infeasible = std::get_if<plan::Infeasible>(&found))
      tried.answer = std::move(*infeasible);
  } catch (const InputError& error) {
    tried.refused = error.what();
  }
  tried.solving = now() - begin;
  return tried;
}

std::vector<std::string> row_of(const Tried& tried, Seconds ideal) {
  const std::string solving = to_text(tried.solving);
  if (const plan::Plan* plan = tried.plan()) {
    const plan::StagePrediction& predicted = plan->stages.front().predicted;
    return {tried.solver,
            report::time_text(plan->step),
            report::overhead_text(plan->step, ideal),
            report::exact_text(predicted.peak),
            report::time_text(plan->recompute),
            to_text(predicted.offloaded * plan->micro_batches),
            solving,
            ""};
  }
  if (const plan::Infeasible* infeasible = tried.infeasible())
    return {tried.solver, "-", "",      "",
            "",           "",  solving, report::exact_text(infeasible->least_budget)};
  return {tried.solver, "refused", "", "", "", "", "", ""};
}

}  // namespace
}  // namespace trireme::app
