// Shortest path from "x[first-1] is held" to "nothing is left", one edge per action. A state says
// of every layer whether its output or its tape is held, and which gradient is held. Tapes cannot
// be dropped, so each layer is taped exactly once, where possible by a retape. The length of a path
// is the time of its forwards. Needs nothing but the rules of the memory model, so that it can
// judge the table solvers.
//
// SPDX-License-Identifier: Apache-2.0
#include "trireme/solve/exhaustive.h"

#include "baselines.h"
#include "judge/judge.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <queue>
#include <utility>

namespace trireme::solve {
namespace {

using program::Action;
using program::Op;

constexpr int kMostLayers = 12;
constexpr std::int64_t kMostStates = 17'000'000;
constexpr std::int64_t kUnbounded = std::numeric_limits<std::int64_t>::max();

enum class Wanted { kLeastTime, kLeastPeak };
enum class Held : std::uint8_t { kNothing, kOutput, kTape };

// What is held. Layers are counted from 1 within the problem; x[0] stays to the end.
struct State {
  std::array<Held, kMostLayers + 1> held{};
  bool turned = false;  // past the pause
  bool bare = false;    // the tape of the layer whose gradient is held lacks its output
  int gradient = 0;     // i of the x[i] whose gradient is held; before the pause: the loss was read
  int fresh = 0;        // persistent: the output that the last action made, 0 for none
};

struct Edge {
  State to;
  Action action;    // kReadLoss and the pause (as kDrop) have layer 0
  double runs = 0;  // seconds
  std::int64_t peak = 0;
};

class Search {
 public:
  Search(const Problem& problem, const ExhaustiveLimits& limits, Wanted wanted);
  std::optional<program::StageProgram> run();

 private:
  struct Visit {
    double cost = std::numeric_limits<double>::infinity();
    std::int32_t from = -1;
    std::int8_t op = 0, layer = 0;
  };

  std::int32_t number(const State& state) const;
  State state(std::int32_t number) const;
  std::int64_t weight(const State& state) const;
  const chain::LayerCost& layer(int i) const { return chain_.layer(first_ + i - 1); }
  std::int64_t output(int i) const { return chain_.output(first_ + i - 1).count(); }

  template <class Take>
  void each_edge(const State& state, Take&& take) const;
  template <class Take>
  void run_layer(const State& state, int i, std::int64_t weight, Take&& take) const;
  template <class Take>
  void read_loss(const State& state, std::int64_t weight, Take&& take) const;
  template <class Take>
  void turn(const State& state, std::int64_t weight, Take&& take) const;
  template <class Take>
  void backward(const State& state, std::int64_t weight, Take&& take) const;
  program::StageProgram program(std::int32_t goal) const;

  const chain::Chain& chain_;
  int first_, layers_;
  std::int64_t budget_, most_kept_;
  bool persistent_;
  bool retapes_ = false;  // some layer has them
  bool with_loss_;  // the chain's last layer is included: its gradient replaces x[last] at once
  Wanted wanted_;
  std::array<std::int32_t, kMostLayers + 1> power_{};  // powers of 3
  std::vector<Visit> visits_;
};

bool available(const State& state, int i) {
  return i == 0 || state.held[static_cast<std::size_t>(i)] != Held::kNothing;
}
Held& held(State& state, int i) {
  return state.held[static_cast<std::size_t>(i)];
}
Held held(const State& state, int i) {
  return state.held[static_cast<std::size_t>(i)];
}

}  // namespace

Result solve_exhaustive(const Problem& problem, std::string_view argument) {
  if (!argument.empty() && argument != "persistent") {
    refuse_argument("exhaustive", argument, "persistent");
  }
  const ExhaustiveLimits limits{.persistent = !argument.empty()};
  if (auto program = search_fastest(problem, limits)) {
    return judged(problem, *std::move(program));
  }
  const auto leanest = search_leanest(problem, limits);
  ensure(leanest.has_value(), "without a budget something always runs");
  return infeasible(problem, *leanest);
}

std::optional<program::StageProgram> search_fastest(const Problem& problem,
                                                    const ExhaustiveLimits& limits) {
  return Search(problem, limits, Wanted::kLeastTime).run();
}

std::optional<program::StageProgram> search_leanest(const Problem& problem,
                                                    const ExhaustiveLimits& limits) {
  return Search(problem, limits, Wanted::kLeastPeak).run();
}

namespace {

Search::Search(const Problem& problem, const ExhaustiveLimits& limits, Wanted wanted)
    : chain_(*problem.chain),
      first_(problem.first_layer),
      layers_(problem.last_layer - problem.first_layer + 1),
      budget_(wanted == Wanted::kLeastTime ? problem.budget.count() : kUnbounded),
      most_kept_(limits.most_kept ? limits.most_kept->count() : kUnbounded),
      persistent_(limits.persistent),
      with_loss_(problem.last_layer == problem.chain->length()),
      wanted_(wanted) {
  for (int i = 1; i <= layers_; ++i) retapes_ = retapes_ || layer(i).retape;
  std::int64_t states = (layers_ + 3) * (persistent_ ? layers_ + 1 : 1) * (retapes_ ? 2 : 1);
  for (int i = 0; i < layers_ && states <= kMostStates; ++i) states *= 3;
  if (layers_ > kMostLayers || states > kMostStates) {
    throw InputError(concat("exhaustive: ", layers_,
                            " layers have too many states; it takes up to ",
                            persistent_ ? 10 : kMostLayers, ", use rotor_free instead"));
  }
  power_[0] = 1;
  for (std::size_t i = 1; i < power_.size(); ++i) power_[i] = power_[i - 1] * 3;
  visits_.resize(static_cast<std::size_t>(states));
}

std::optional<program::StageProgram> Search::run() {
  using Entry = std::pair<double, std::int32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
  const std::int32_t start = number(State{});
  visits_[static_cast<std::size_t>(start)].cost = 0;
  open.emplace(0, start);
  while (!open.empty()) {
    const auto [cost, at] = open.top();
    open.pop();
    if (cost > visits_[static_cast<std::size_t>(at)].cost) continue;
    const State here = state(at);
    if (here.turned && here.gradient == 0) return program(at);
    each_edge(here, [&, cost = cost, at = at](const Edge& edge) {
      if (edge.peak > budget_) return;
      const double reached = wanted_ == Wanted::kLeastTime
                                 ? cost + edge.runs
                                 : std::max(cost, static_cast<double>(edge.peak));
      const std::int32_t to = number(edge.to);
      Visit& visit = visits_[static_cast<std::size_t>(to)];
      if (reached >= visit.cost) return;
      visit = {.cost = reached,
               .from = at,
               .op = static_cast<std::int8_t>(edge.action.op),
               .layer = static_cast<std::int8_t>(edge.action.layer)};
      open.emplace(reached, to);
    });
  }
  return std::nullopt;
}

template <class Take>
void Search::each_edge(const State& state, Take&& take) const {
  const std::int64_t bytes = weight(state);
  const bool loss_read = !state.turned && state.gradient > 0;
  const bool made = !state.turned && !loss_read && available(state, layers_);
  if (made && with_loss_) return read_loss(state, bytes, take);
  const int last = state.turned ? state.gradient : layers_;
  for (int i = 1; i <= last; ++i) {
    if (held(state, i) == Held::kNothing && available(state, i - 1)) {
      if (!made && !loss_read) run_layer(state, i, bytes, take);
    } else if (held(state, i) == Held::kOutput && !persistent_) {
      Edge edge{.to = state, .action = {Op::kDrop, i}, .peak = bytes};
      held(edge.to, i) = Held::kNothing;
      take(edge);
    }
  }
  if (made || loss_read) turn(state, bytes, take);
  if (state.turned && available(state, state.gradient - 1) &&
      held(state, state.gradient) == Held::kTape) {
    backward(state, bytes, take);
  }
}

template <class Take>
void Search::run_layer(const State& state, int i, std::int64_t weight, Take&& take) const {
  const bool read = !state.turned || i != state.gradient;  // whether anything reads x[i]
  Edge taped{.to = state, .action = {Op::kForwardTape, i}, .runs = layer(i).forward.count()};
  taped.peak = weight + (layer(i).tape + layer(i).tape_transient).count();
  if (!read && layer(i).retape) {
    taped.action.op = Op::kRetape;
    taped.runs = layer(i).retape->time.count();
    taped.peak = weight + (layer(i).retape->tape + layer(i).retape->tape_transient).count();
    taped.to.bare = true;
  }
  held(taped.to, i) = Held::kTape;
  taped.to.fresh = 0;
  take(taped);
  if (!read) return;
  Edge untaped{.to = state, .action = {Op::kForwardKeep, i}, .runs = layer(i).forward.count()};
  untaped.peak = weight + (layer(i).output + layer(i).forward_transient).count();
  held(untaped.to, i) = Held::kOutput;
  untaped.to.fresh = persistent_ ? i : 0;
  take(untaped);
  if (persistent_ && i > 1 && state.fresh == i - 1) {
    untaped.action.op = Op::kForward;
    held(untaped.to, i - 1) = Held::kNothing;
    take(untaped);
  }
}

// The loss is read as soon as it is made: its gradient replaces x[last], or is held next to the
// tape that holds x[last]. Drops may follow before the pause.
template <class Take>
void Search::read_loss(const State& state, std::int64_t bytes, Take&& take) const {
  Edge edge{.to = state, .action = {Op::kReadLoss, 0}, .peak = bytes};
  if (held(state, layers_) == Held::kOutput) {
    held(edge.to, layers_) = Held::kNothing;
  } else {
    edge.peak += output(layers_);
  }
  edge.to.gradient = layers_;
  edge.to.fresh = 0;
  take(edge);
}

// The pause: the forward ends with x[last] made and passed on, and drops; then its gradient is
// received.
template <class Take>
void Search::turn(const State& state, std::int64_t bytes, Take&& take) const {
  Edge edge{.to = state, .action = {Op::kDrop, 0}};
  edge.peak = bytes;
  if (state.gradient == 0) {
    if (held(state, layers_) == Held::kOutput) {
      held(edge.to, layers_) = Held::kNothing;
    } else {
      edge.peak += output(layers_);
    }
  }
  edge.to.turned = true;
  edge.to.gradient = layers_;
  edge.to.fresh = 0;
  if (weight(edge.to) - output(layers_) > most_kept_) return;
  take(edge);
}

template <class Take>
void Search::backward(const State& state, std::int64_t bytes, Take&& take) const {
  const int i = state.gradient;
  Edge edge{.to = state, .action = {Op::kBackward, i}};
  held(edge.to, i) = Held::kNothing;
  if (held(state, i - 1) == Held::kOutput) held(edge.to, i - 1) = Held::kNothing;
  edge.to.gradient = i - 1;
  edge.to.bare = false;
  edge.to.fresh = 0;
  const Bytes transient =
      state.bare ? layer(i).again().backward_transient : layer(i).backward_transient;
  edge.peak = std::max(bytes + transient.count(), weight(edge.to));
  take(edge);
}

// x[0] is held until its gradient takes its place.
std::int64_t Search::weight(const State& state) const {
  std::int64_t bytes = output(0);
  if (state.gradient > 0) bytes += output(state.gradient);
  for (int i = 1; i <= layers_; ++i) {
    if (held(state, i) == Held::kOutput) bytes += output(i);
    if (held(state, i) == Held::kTape) {
      const bool bare = state.bare && i == state.gradient;
      bytes += (bare ? layer(i).again().tape : layer(i).tape).count();
    }
  }
  return bytes;
}

std::int32_t Search::number(const State& state) const {
  std::int32_t number = layers_ - state.gradient + 1;
  if (!state.turned) number = state.gradient == 0 ? 0 : layers_ + 2;
  if (retapes_) number = 2 * number + (state.bare ? 1 : 0);
  if (persistent_) number = number * (layers_ + 1) + state.fresh;
  number *= power_[static_cast<std::size_t>(layers_)];
  for (int i = 1; i <= layers_; ++i) {
    number += static_cast<std::int32_t>(held(state, i)) * power_[static_cast<std::size_t>(i - 1)];
  }
  return number;
}

State Search::state(std::int32_t number) const {
  State state;
  for (int i = 1; i <= layers_; ++i, number /= 3) held(state, i) = static_cast<Held>(number % 3);
  if (persistent_) {
    state.fresh = number % (layers_ + 1);
    number /= layers_ + 1;
  }
  if (retapes_) {
    state.bare = number % 2 == 1;
    number /= 2;
  }
  state.turned = number > 0 && number <= layers_ + 1;
  if (number > 0) state.gradient = state.turned ? layers_ - number + 1 : layers_;
  return state;
}

program::StageProgram Search::program(std::int32_t goal) const {
  std::vector<Action> actions;
  for (std::int32_t at = goal; visits_[static_cast<std::size_t>(at)].from >= 0;) {
    const Visit& visit = visits_[static_cast<std::size_t>(at)];
    actions.push_back({static_cast<Op>(visit.op), visit.layer, 0});
    at = visit.from;
  }
  std::reverse(actions.begin(), actions.end());
  program::StageProgram program{.first_layer = first_, .last_layer = first_ + layers_ - 1};
  std::vector<Action>* list = &program.forward;
  for (const Action& action : actions) {
    if (action.layer == 0) {
      if (action.op == Op::kDrop) list = &program.backward;
      continue;
    }
    const int i = first_ + action.layer - 1;
    if (action.op == Op::kDrop && !list->empty() &&
        list->back() == Action{Op::kForwardKeep, i + 1, 0}) {
      list->back().op = Op::kForward;
    } else {
      list->push_back({action.op, i, 0});
    }
  }
  return program;
}

}  // namespace
}  // namespace trireme::solve
