// SPDX-License-Identifier: Apache-2.0
#include "chain_tables.h"

#include <algorithm>
#include <utility>

namespace trireme::poet {

using graph::NodeCost;

ChainTables::ChainTables(const graph::Problem& problem, const Links& links,
                         const ChainQuestion& question)
    : problem_(problem),
      links_(links),
      question_(question),
      layers_(links.layers),
      fronts_(static_cast<std::size_t>(layers_ * (layers_ + 1) / 2 * kWays + 2 * layers_ + 1)),
      collection_(question.screen) {
  set_costs();
  for (int length = 1; length <= layers_; ++length) {
    for (int first = 0; first + length <= layers_; ++first) fill_pair(first, first + length);
  }
  for (int first = layers_ - 1; first >= 0; --first) {
    fill_first(first, Source::kHeld);
    if (can_be_outside(first)) fill_first(first, Source::kWarm);
  }
  fill_whole();
}

// With lanes in turn nothing is computed during a copy.
void ChainTables::set_costs() {
  const bool is_energy = question_.objective == Objective::kEnergy;
  const auto cost = [&](Joules energy, Seconds time, Watts idle) {
    const Joules all = energy + idle * time;
    return Cost{.value = is_energy ? all.count() : time.count(), .time = time.count()};
  };
  for (int node = 0; node < problem_.graph.size(); ++node) {
    const NodeCost& of = problem_.cost(node);
    const double share = question_.copy_share;
    compute_.push_back(cost(of.energy, of.time, Watts(0)));
    in_.push_back(cost(of.in_energy, of.in * share, problem_.idle));
    out_.push_back(cost(of.out_energy, of.out * share, problem_.idle));
    out_.back().outside = static_cast<double>(bytes(node));
  }
}

// A run of the pair to the last layer needs what is present, and all that comes to memory needs
// what is held.
void ChainTables::fill_pair(int first, int last) {
  std::vector<Source> sources{Source::kHeld};
  if (can_be_outside(first)) sources.insert(sources.end(), {Source::kWarm, Source::kCold});
  std::vector<Gradient> gradients{Gradient::kHeld};
  if (can_gradient_be_outside(last + 1)) gradients.push_back(Gradient::kOutside);
  std::vector<Target> targets{Target::kAbsent};
  if (links_.needs_output(last)) {
    targets.insert(targets.begin(), Target::kPresent);
    if (can_be_outside(last)) targets.push_back(Target::kOutside);
  }
  for (const Target target : targets) {
    for (const Gradient gradient : gradients) {
      for (const Source source : sources) fill({first, last, source, target, gradient});
    }
  }
  for (const Source source : sources) {
    if (source == Source::kWarm) continue;
    for (const Target target : {Target::kAbsent, Target::kOutside, Target::kDroppable}) {
      fill_new({first, last, source, target, Gradient::kNew});
    }
  }
}

void ChainTables::fill(const Part& part) {
  Part held = part;
  held.source = Source::kHeld;
  if (part.source == Source::kWarm) {
    add({.choice = {.move = Move::kPass, .then = {front_of(held)}}});
  }
  if (part.source == Source::kCold) {
    add({.cost = access(part.first), .choice = {.move = Move::kFetch, .then = {front_of(held)}}});
  }
  if (part.target == Target::kOutside) {
    Part absent = part;
    absent.target = Target::kAbsent;
    add({.choice = {.move = Move::kPass, .then = {front_of(absent)}}});
  }
  add_backward(part);
  if (question_.may_recompute) {
    add_runs(part);
    if (part.target == Target::kAbsent) add_run_to_last(part);
  }
  finish(front_of(part));
}

void ChainTables::fill_new(Part part) {
  const int front = front_of(part);
  std::vector<Target> targets{part.target};
  if (part.target == Target::kDroppable) targets = {Target::kPresent, Target::kAbsent};
  const int backward = part.last < layers_ ? links_.backward(part.last + 1) : -1;
  for (const Target target : targets) {
    part.target = target;
    part.gradient = Gradient::kHeld;
    add({.choice = {.move = Move::kPass, .then = {front_of(part)}}});
    if (!can_gradient_be_outside(part.last + 1)) continue;
    part.gradient = Gradient::kOutside;
    add({.cost = cost_of(out_, backward),
         .choice = {.move = Move::kSend, .then = {front_of(part)}}});
  }
  finish(front);
}

// What is read, and what is made of it.
void ChainTables::add_backward(const Part& part) {
  const int first = part.first, last = part.last;
  const bool is_single = first == last - 1;
  const bool reads_source = is_single && links_.needs_input(last);
  if (links_.needs_input(last) && !is_single) return;
  if (links_.needs_output(last) && part.target == Target::kAbsent) return;
  const bool is_held = part.source == Source::kHeld;
  Option option{.cost = cost_of(compute_, links_.backward(last)),
                .choice = {.move = Move::kBackward}};
  if (part.target == Target::kOutside) option.cost += cost_of(in_, last);
  if (part.gradient == Gradient::kOutside) option.cost += cost_of(in_, links_.backward(last + 1));
  if (reads_source && part.source == Source::kCold) option.cost += access(first);
  option.needs = gradient_bytes(last + 1) + gradient_bytes(last);
  if (links_.needs_output(last)) option.needs += bytes(last);
  if (is_held || reads_source) option.needs += bytes(first);
  if (!is_single) {
    const Part rest{first, last - 1, is_held ? Source::kHeld : Source::kCold, Target::kAbsent,
                    Gradient::kNew};
    option.choice.then = {front_of(rest)};
  }
  add(option);
}

void ChainTables::add_runs(const Part& part) {
  Option option;
  if (part.source == Source::kCold) option.cost = access(part.first);
  std::int64_t beside = part.gradient == Gradient::kHeld ? gradient_bytes(part.last + 1) : 0;
  if (part.target == Target::kPresent) beside += bytes(part.last);
  const bool is_held = part.source == Source::kHeld;
  const Source source = is_held ? Source::kHeld : Source::kCold;
  for (int at = part.first + 1; at < part.last; ++at) {
    option.cost += cost_of(compute_, at);
    option.needs = std::max(option.needs, beside + need_of_forward(part.first, at, is_held));
    option.choice.at = at;
    Part right{at, part.last, Source::kHeld, part.target, part.gradient};
    const int held = front_of(right);
    right.source = Source::kWarm;
    const Part left{part.first, at, source, Target::kDroppable, Gradient::kNew};
    add_splits(option, left, held, front_of(right));
  }
}

void ChainTables::add_run_to_last(const Part& part) {
  if (!links_.needs_output(part.last)) return;
  const bool is_held = part.source == Source::kHeld;
  Option option{.choice = {.move = Move::kRun, .at = part.last}};
  if (part.source == Source::kCold) option.cost = access(part.first);
  const std::int64_t beside = part.gradient == Gradient::kHeld ? gradient_bytes(part.last + 1) : 0;
  for (int at = part.first + 1; at <= part.last; ++at) {
    option.cost += cost_of(compute_, at);
    option.needs = std::max(option.needs, beside + need_of_forward(part.first, at, is_held));
  }
  Part then = part;
  then.target = Target::kPresent;
  if (!is_held) then.source = part.first == part.last - 1 ? Source::kWarm : Source::kCold;
  option.choice.then = {front_of(then)};
  add(option);
}

void ChainTables::fill_first(int first, Source source) {
  const bool is_held = source == Source::kHeld;
  if (!is_held) {
    add({.choice = {.move = Move::kPass, .then = {front_of_first(first, Source::kHeld)}}});
  }
  const Source later = is_held ? Source::kHeld : Source::kCold;
  Option option;
  for (int at = first + 1; at < layers_; ++at) {
    option.cost += cost_of(compute_, at);
    option.needs = std::max(option.needs, need_of_forward(first, at, is_held));
    option.choice.at = at;
    const Part left{first, at, later, Target::kDroppable, Gradient::kNew};
    add_splits(option, left, front_of_first(at, Source::kHeld), front_of_first(at, Source::kWarm));
  }
  option.cost += cost_of(compute_, layers_);
  option.needs = std::max(option.needs, need_of_forward(first, layers_, is_held));
  const bool is_needed = links_.needs_output(layers_);
  Part all{first, layers_, later, is_needed ? Target::kPresent : Target::kAbsent, Gradient::kHeld};
  if (!is_held && first == layers_ - 1) all.source = Source::kWarm;
  option.choice = {.move = Move::kRun, .at = layers_, .then = {front_of(all)}};
  add(option);
  if (is_needed && can_be_outside(layers_)) {
    all.target = Target::kOutside;
    option.cost += cost_of(out_, layers_);
    option.choice = {.move = Move::kRunAndSend, .at = layers_, .then = {front_of(all)}};
    add(option);
  }
  finish(front_of_first(first, source));
}

void ChainTables::fill_whole() {
  Option option{.cost = cost_of(compute_, 0), .needs = bytes(0)};
  option.choice = {.move = Move::kRun, .then = {front_of_first(0, Source::kHeld)}};
  add(option);
  if (can_be_outside(0)) {
    option.choice.then = {front_of_first(0, Source::kWarm)};
    if (!question_.input_is_made_again) {
      option.choice.move = Move::kRunAndSend;
      option.cost += cost_of(out_, 0);
    }
    add(option);
  }
  finish(static_cast<int>(fronts_.size()) - 1);
}

// What a run leaves stays in memory, or is copied out. A backward that has just read it leaves it
// in memory, from where it may be used once more.
void ChainTables::add_splits(Option option, const Part& left, int then_if_held,
                             int then_if_outside) {
  if (left.source == Source::kHeld) option.beside = bytes(left.first);
  option.choice.move = Move::kRun;
  option.choice.then = {then_if_held};
  add_last(option, left, Target::kDroppable);
  if (!can_be_outside(left.last)) return;
  option.choice.move = Move::kRunAndSend;
  option.choice.then = {then_if_outside};
  option.cost += cost_of(out_, left.last);
  const bool is_used_again = links_.needs_output(left.last);
  if (is_used_again) add_last(option, left, Target::kOutside);
  if (!is_used_again || links_.needs_input(left.last + 1)) {
    add_last(option, left, Target::kDroppable);
  }
}

void ChainTables::add_last(Option option, Part left, Target target) {
  left.target = target;
  option.choice.last = {front_of(left)};
  add(option);
}

void ChainTables::add(const Option& option) {
  if (option.needs > question_.memory) return;
  const Front &then = front(option.choice.then.front), &last = front(option.choice.last.front);
  if (then.empty() || last.empty()) return;
  collection_.begin();
  if (collection_.is_wide()) {
    add_all_pairs(option, then, last);
  } else {
    add_cheapest_pairs(option, then, last);
  }
  collection_.end();
}

// Keeps the cheapest of both that each amount of memory allows.
void ChainTables::add_cheapest_pairs(const Option& option, const Front& then, const Front& last) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  std::size_t i = 0, j = 0;
  std::int64_t memory = std::max({option.needs, then[0].memory + option.beside, last[0].memory});
  while (memory <= question_.memory) {
    while (i + 1 < then.size() && then[i + 1].memory + option.beside <= memory) ++i;
    while (j + 1 < last.size() && last[j + 1].memory <= memory) ++j;
    add_pair(option, memory, i, j);
    const std::int64_t next_i = i + 1 < then.size() ? then[i + 1].memory + option.beside : kMost;
    const std::int64_t next_j = j + 1 < last.size() ? last[j + 1].memory : kMost;
    if (std::min(next_i, next_j) == kMost) return;
    memory = std::min(next_i, next_j);
  }
}

void ChainTables::add_all_pairs(const Option& option, const Front& then, const Front& last) {
  for (std::size_t i = 0; i < then.size(); ++i) {
    const std::int64_t least = std::max(option.needs, then[i].memory + option.beside);
    for (std::size_t j = 0; j < last.size(); ++j) {
      const std::int64_t memory = std::max(least, last[j].memory);
      if (memory > question_.memory) break;
      add_pair(option, memory, i, j);
    }
  }
}

void ChainTables::add_pair(const Option& option, std::int64_t memory, std::size_t then,
                           std::size_t last) {
  const Label &a = label_of(option.choice.then.front, then),
              &b = label_of(option.choice.last.front, last);
  const double price = question_.price.of(option.cost) + a.price + b.price;
  if (!collection_.wants(memory, price)) return;
  Label label{.memory = memory,
              .price = price,
              .cost = option.cost + a.cost + b.cost,
              .choice = option.choice};
  label.choice.then.label = static_cast<int>(then);
  label.choice.last.label = static_cast<int>(last);
  collection_.add(label);
}

void ChainTables::finish(int front) {
  fronts_[static_cast<std::size_t>(front)] = collection_.take();
}

int ChainTables::front_of(const Part& part) const {
  const int pair = part.last * (part.last - 1) / 2 + part.first;
  const int way =
      (static_cast<int>(part.source) * kTargets + static_cast<int>(part.target)) * kGradients +
      static_cast<int>(part.gradient);
  return pair * kWays + way;
}

int ChainTables::front_of_first(int first, Source source) const {
  const int pairs = layers_ * (layers_ + 1) / 2;
  return pairs * kWays + 2 * first + (source == Source::kHeld ? 0 : 1);
}

bool ChainTables::can_be_outside(int output) const {
  if (output == 0 && question_.input_is_made_again) return bytes(0) > 0;
  const Bytes size = problem_.graph.node(output).bytes;
  return question_.may_copy && size > Bytes(0) && size <= problem_.capacity;
}

bool ChainTables::can_gradient_be_outside(int layer) const {
  return layer <= layers_ && can_be_outside(links_.backward(layer));
}

Cost ChainTables::access(int output) const {
  const bool is_made = output == 0 && question_.input_is_made_again;
  return cost_of(is_made ? compute_ : in_, output);
}

std::int64_t ChainTables::gradient_bytes(int layer) const {
  return layer > layers_ ? 0 : bytes(links_.backward(layer));
}

std::int64_t ChainTables::need_of_forward(int first, int at, bool holds_first) const {
  const std::int64_t both = bytes(at - 1) + bytes(at);
  return holds_first && at - 1 > first ? both + bytes(first) : both;
}

}  // namespace trireme::poet
