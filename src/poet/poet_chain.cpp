// The solver "poet_chain": tables over a chain's parts (chain_tables.h), asked with several prices.
//
// Without a deadline one filling of the tables has the answer. With one, time gets a price. The
// schedules that are cheapest at some price are the corners of the trade-off's convex hull: the two
// next to the deadline are found by going from one side of the hull to the next (Dinkelbach). They
// leave a gap between the best schedule so far and what the price proves; tables filled once more
// with all labels that are not dearer than this gap find what lies inside the hull.
//
// What tables cannot say (docs/poet.md), greedy mostly finds: a few of its searches are the first
// schedule.
//
// With lanes beside compute time is no sum. Tables then count a share of the time of copies, and
// replay judges what they find.
// SPDX-License-Identifier: Apache-2.0
#include "chain_tables.h"
#include "scale.h"
#include "solvers.h"
#include "tidy.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace trireme::poet {
namespace {

using graph::Lanes;
using graph::Problem;
using graph::Schedule;

/// Shares of the time of copies beside compute that tables count: from all hidden to none.
constexpr double kShares[] = {0, 0.25, 0.5, 1};
/// Prices of a byte outside where those are scarce, in units of the step's value over the capacity.
constexpr double kScarce[] = {0, 0.02, 0.1, 0.3, 1, 4};
/// A second costs so much more than a step's mean second that all else hardly counts.
constexpr double kDear = 1e5;
/// Local searches of greedy, for what tables cannot say.
constexpr int kSearches = 4;
/// Labels dearer than the bound by more than this share of it are not looked at.
constexpr double kWidest = 0.2;
/// Corners of the hull that are looked at.
constexpr int kCorners = 40;
/// About how many pairs of labels a filling of the tables may look at.
constexpr double kWork = 4e8;

class ChainSearch {
 public:
  ChainSearch(const Problem& problem, const Freedom& freedom, Links links);
  /// Nothing if no schedule was found.
  std::optional<Solution> run();

 private:
  void look(const ChainQuestion& question);
  std::optional<ChainQuestion> at_deadline(ChainQuestion question, const Label& late);
  void look_inside(ChainQuestion question, double bound);
  std::optional<Label> ask(const ChainQuestion& question);
  void ask_all(const ChainQuestion& question);
  void offer(const ChainTables& tables, int label);
  void offer(const Schedule& schedule);
  std::vector<ChainQuestion> questions() const;
  double proven(const ChainQuestion& question, const Label& cheapest) const;
  bool is_in_turn() const { return problem_.lanes == Lanes::kInTurn; }
  bool is_late(const Label& label) const { return label.cost.time > deadline_; }
  bool is_input_copied(const ChainQuestion& question) const;
  bool is_outside_scarce() const;
  std::size_t most_labels(bool is_wide) const;

  const Problem& problem_;
  const Freedom& freedom_;
  Links links_;
  double deadline_;  ///< seconds
  std::optional<Schedule> best_{};
  double least_ = std::numeric_limits<double>::infinity();
};

/// Tables know no transient bytes: as many as any node needs are kept free all the time.
struct Plain {
  Problem problem;
  Bytes margin;
};
Plain without_transients(const Problem& problem);
Links links_or_throw(const graph::Graph& graph);
Infeasible why_not(const Problem& problem, const Freedom& freedom, const Links& links);
Bytes least_memory(const Problem& problem, const Freedom& freedom, const Links& links);

}  // namespace

Result solve_poet_chain(const Problem& problem, const Freedom& freedom) {
  const Links links = links_or_throw(problem.graph);
  if (auto solution = without_search(problem, freedom)) return *std::move(solution);
  const Plain plain = without_transients(problem);
  if (auto solution = ChainSearch(plain.problem, freedom, links).run()) {
    solution->outcome = replay(problem, solution->schedule).outcome;
    return *std::move(solution);
  }
  Infeasible why = why_not(plain.problem, freedom, links);
  why.least_memory += plain.margin;
  return why;
}

std::optional<Schedule> chain_schedule(const Problem& problem, const Freedom& freedom) {
  const auto links = links_of(problem.graph);
  if (!std::holds_alternative<Links>(links)) return std::nullopt;
  const Plain plain = without_transients(problem);
  const auto solution = ChainSearch(plain.problem, freedom, std::get<Links>(links)).run();
  return solution ? std::optional(solution->schedule) : std::nullopt;
}

namespace {

Plain without_transients(const Problem& problem) {
  Plain plain{problem, Bytes(0)};
  for (graph::Node& node : plain.problem.graph.nodes)
    plain.margin = std::max(plain.margin, std::exchange(node.transient, Bytes(0)));
  if (problem.memory > Bytes(0))
    plain.problem.memory = std::max(Bytes(1), problem.memory - plain.margin);
  return plain;
}

Links links_or_throw(const graph::Graph& graph) {
  auto links = links_of(graph);
  if (const auto* const why = std::get_if<std::string>(&links)) {
    throw InputError(concat("poet_chain: the graph ", graph.name, " is not a chain: ", *why,
                            "; use the solver poet or greedy"));
  }
  return std::get<Links>(std::move(links));
}

ChainSearch::ChainSearch(const Problem& problem, const Freedom& freedom, Links links)
    : problem_(problem),
      freedom_(freedom),
      links_(std::move(links)),
      deadline_(problem.deadline.count() * (1 + kSlack)) {}

std::optional<Solution> ChainSearch::run() {
  if (links_.layers == 0) return std::nullopt;
  if (const auto other = greedy_schedule(problem_, freedom_, kSearches)) offer(*other);
  for (const ChainQuestion& question : questions()) {
    look(question);
    if (freedom_.limit.is_over()) break;
  }
  if (!best_) return std::nullopt;
  const graph::Outcome outcome = replay(problem_, *best_).outcome;
  return Solution{
      .schedule = *best_, .outcome = outcome, .bound = least_value(problem_, freedom_.objective)};
}

// All that is tried, apart from prices of time.
std::vector<ChainQuestion> ChainSearch::questions() const {
  ChainQuestion question{.objective = freedom_.objective,
                         .may_recompute = freedom_.may_recompute,
                         .may_copy = freedom_.may_copy && problem_.capacity > Bytes(0)};
  if (problem_.memory > Bytes(0)) question.memory = problem_.memory.count();
  question.screen.most = most_labels(false);
  question.screen.counts_outside = is_outside_scarce();
  const double unit =
      least_value(problem_, freedom_.objective) / static_cast<double>(problem_.capacity.count());
  std::vector<ChainQuestion> questions;
  for (const bool is_made_again : {true, false}) {
    if (is_made_again ? !question.may_recompute : !is_input_copied(question)) continue;
    question.input_is_made_again = is_made_again;
    for (const double share : kShares) {
      question.copy_share = is_in_turn() ? 1 : share;
      for (const double scarcity : kScarce) {
        question.price.outside = question.screen.counts_outside ? scarcity * unit : 0;
        questions.push_back(question);
        if (!question.screen.counts_outside) break;
      }
      if (is_in_turn() || !question.may_copy) break;
    }
  }
  return questions;
}

// Only if computing it takes more of anything.
bool ChainSearch::is_input_copied(const ChainQuestion& question) const {
  const graph::NodeCost& cost = problem_.cost(0);
  return question.may_copy &&
         (!question.may_recompute || cost.energy > cost.in_energy || cost.time > cost.in);
}

bool ChainSearch::is_outside_scarce() const {
  Bytes all{0};
  for (const graph::Node& node : problem_.graph.nodes) all += node.bytes;
  return freedom_.may_copy && problem_.capacity > Bytes(0) && all > problem_.capacity;
}

// Wide fronts are joined pair by pair, others side by side.
std::size_t ChainSearch::most_labels(bool is_wide) const {
  const double joins = std::pow(links_.layers, 3);
  const double most = is_wide ? std::sqrt(kWork / joins) : kWork / 10 / joins;
  return static_cast<std::size_t>(std::clamp(most, 16.0, 1000.0));
}

void ChainSearch::look(const ChainQuestion& question) {
  const std::optional<Label> cheapest = ask(question);
  if (!cheapest) return;
  if (!is_late(*cheapest) || freedom_.objective == Objective::kTime) {
    return look_inside(question, proven(question, *cheapest));
  }
  const std::optional<ChainQuestion> priced = at_deadline(question, *cheapest);
  if (!priced) return;
  const std::optional<Label> label = ask(*priced);
  if (label) look_inside(*priced, proven(*priced, *label));
}

// The price of time at which schedules before and after the deadline are the cheapest. Nothing if
// none but perhaps the fastest one ends before it.
std::optional<ChainQuestion> ChainSearch::at_deadline(ChainQuestion question, const Label& first) {
  Label late = first;
  question.price.time = kDear * late.price / late.cost.time;
  std::optional<Label> early = ask(question);
  if (!early || is_late(*early)) {
    question.objective = Objective::kTime;
    question.price = {};
    ask(question);
    return std::nullopt;
  }
  const auto value = [&](const Label& label) {
    return label.cost.value + question.price.outside * label.cost.outside;
  };
  for (int k = 0; k < kCorners && !freedom_.limit.is_over(); ++k) {
    question.price.time = (value(*early) - value(late)) / (late.cost.time - early->cost.time);
    const std::optional<Label> label = ask(question);
    if (!label || label->price >= question.price.of(late.cost) * (1 - kSlack)) break;
    if (is_late(*label)) {
      late = *label;
    } else {
      early = label;
    }
  }
  return question;
}

// What no schedule of the tables is cheaper than: the price less what limits are worth at most.
double ChainSearch::proven(const ChainQuestion& question, const Label& cheapest) const {
  double bound = cheapest.price;
  if (question.price.time > 0) bound -= question.price.time * deadline_;
  if (question.price.outside > 0) {
    bound -= question.price.outside * static_cast<double>(problem_.capacity.count());
  }
  return bound;
}

void ChainSearch::look_inside(ChainQuestion question, double bound) {
  const double gap = std::min(least_ - bound, kWidest * std::abs(bound));
  if (gap <= kSlack * std::abs(bound) || freedom_.limit.is_over()) return;
  question.screen.excess = gap * (1 + kSlack);
  question.screen.most = most_labels(true);
  ask_all(question);
}

std::optional<Label> ChainSearch::ask(const ChainQuestion& question) {
  const ChainTables tables(problem_, links_, question);
  if (tables.whole().empty()) return std::nullopt;
  offer(tables, static_cast<int>(tables.whole().size()) - 1);
  return tables.whole().back();
}

// All labels within the excess.
void ChainSearch::ask_all(const ChainQuestion& question) {
  const ChainTables tables(problem_, links_, question);
  for (std::size_t k = 0; k < tables.whole().size(); ++k) {
    const Label& label = tables.whole()[k];
    const bool is_hopeless = is_in_turn() && (is_late(label) || label.cost.value >= least_);
    if (!is_hopeless) offer(tables, static_cast<int>(k));
  }
}

void ChainSearch::offer(const ChainTables& tables, int label) {
  const Schedule schedule = tidied(problem_.graph, tables.actions_of(label));
  offer(schedule);
  if (!is_in_turn()) offer(spread(problem_, schedule));
}

void ChainSearch::offer(const Schedule& schedule) {
  const graph::Replayed replayed = replay(problem_, schedule);
  if (replayed.fault || !is_in_time(problem_, replayed.outcome)) return;
  const double value = value_of(replayed.outcome, freedom_.objective);
  if (value >= least_) return;
  least_ = value;
  best_ = schedule;
}

Infeasible why_not(const Problem& problem, const Freedom& freedom, const Links& links) {
  const Widest most = widest(problem.graph);
  Infeasible why{.is_proven = problem.memory > Bytes(0) && most.bytes > problem.memory,
                 .node = most.node,
                 .least_memory = least_memory(problem, freedom, links)};
  if (problem.memory == Bytes(0) || why.least_memory <= problem.memory) {
    why.least_time = least_time(solve_poet_chain, problem, freedom);
  }
  if (why.least_time > problem.deadline) {
    why.where = words_of_deadline(problem, why.least_time);
  } else {
    why.where =
        concat("poet_chain finds no schedule within ", to_text(problem.memory), "; with ",
               to_text(why.least_memory), " it finds one, and ", problem.graph.node(most.node).name,
               " needs ", to_text(most.bytes), " with its inputs");
  }
  return why;
}

// Memory of the tables' point that needs least. With room for all of them outside, every value
// can be outside whenever it is not used.
Bytes least_memory(const Problem& problem, const Freedom& freedom, const Links& links) {
  Bytes all{0};
  for (const graph::Node& node : problem.graph.nodes) all += node.bytes;
  if (freedom.may_copy && all <= problem.capacity) return widest(problem.graph).bytes;
  Problem unlimited = problem;
  unlimited.memory = Bytes(0);
  Bytes least = replay(unlimited, graph::keep_all(problem.graph)).outcome.peak;
  for (const bool may_copy : {false, true}) {
    if (may_copy && (!freedom.may_copy || problem.capacity == Bytes(0))) continue;
    const ChainTables tables(unlimited, links,
                             {.objective = freedom.objective,
                              .may_recompute = freedom.may_recompute,
                              .may_copy = may_copy,
                              .input_is_made_again = freedom.may_recompute});
    if (tables.whole().empty()) continue;
    const graph::Replayed replayed = replay(unlimited, tidied(problem.graph, tables.actions_of(0)));
    if (!replayed.fault) least = std::min(least, replayed.outcome.peak);
  }
  return least;
}

}  // namespace
}  // namespace trireme::poet
