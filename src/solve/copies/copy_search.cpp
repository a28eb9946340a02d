// Propagates labels through the layers.
//
// SPDX-License-Identifier: Apache-2.0
#include "copy_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trireme::solve {
namespace {

// Sums of the same times in different orders differ by less.
constexpr double kSame = 1e-12;
// By what share labels must be better when there are too many: at first, at most, and in between.
constexpr double kFirstMargin = 1e-4, kWidestMargin = 10, kGrowth = 1.5;
// How a share of the budget compares with the same share of the time that is at stake.
constexpr double kBytesToTime = 0.3;
// Stands for an infinite rate, since infinity times 0 seconds is not a number.
constexpr double kFastest = 1e300;
constexpr double kNoPlan = std::numeric_limits<double>::infinity();

}  // namespace

template <class Lane>
CopySearch<Lane>::CopySearch(const CopySetting& setting)
    : setting_(setting),
      chain_(*setting.problem.chain),
      first_(setting.problem.first_layer),
      last_(setting.problem.last_layer),
      capacity_(setting.problem.link->capacity.count()),
      out_(std::min(setting.problem.link->out.count(), kFastest)),
      in_(std::min(setting.problem.link->in.count(), kFastest)),
      all_kept_(keep_all_bytes(setting.problem)) {
  const std::size_t layers = at(last_) + 1;
  places_.resize(2 * (layers + 1));
  work_.assign(layers + 1, 0);
  forward_.assign(layers + 1, 0);
  std::int64_t all = chain_.output(first_ - 1).count();
  for (int i = last_; i >= first_; --i) {
    const chain::LayerCost& layer = chain_.layer(i);
    forward_[at(i)] = forward_[at(i + 1)] + layer.forward.count();
    work_[at(i)] = work_[at(i + 1)] + layer.forward.count() + layer.backward.count();
    all += std::max(layer.tape, layer.output).count();
  }
  scarce_ = all > capacity_;
}

template <class Lane>
void CopySearch<Lane>::run(double bound) {
  bound_ = bound;
  place(first_, false).push_back({.out = {}, .in = {}, .step = {.last = first_ - 1}});
  for (int i = first_; i <= last_ + 1; ++i) {
    for (const bool taped_input : {false, true}) {
      std::vector<Label> labels = std::move(place(i, taped_input));
      prune(labels);
      const std::size_t begin = labels_.size();
      labels_.insert(labels_.end(), labels.begin(), labels.end());
      for (std::size_t k = begin; i <= last_ && k < labels_.size(); ++k) {
        expand(i, static_cast<std::int32_t>(k), taped_input);
      }
    }
  }
}

template <class Lane>
auto CopySearch<Lane>::ends() const -> std::vector<End> {
  std::vector<End> ends;
  for (std::size_t k = 0; k < labels_.size(); ++k) {
    const Label& label = labels_[k];
    if (label.step.last != last_) continue;
    ends.push_back({label.time() + Lane::at_turn(out_, label.out, in_, label.in),
                    static_cast<std::int32_t>(k)});
  }
  std::stable_sort(ends.begin(), ends.end(),
                   [](const End& a, const End& b) { return a.time < b.time; });
  return ends;
}

template <class Lane>
std::vector<CopyStep> CopySearch<Lane>::steps(const End& end) const {
  std::vector<CopyStep> steps;
  for (std::int32_t k = end.label; labels_[static_cast<std::size_t>(k)].from >= 0;
       k = labels_[static_cast<std::size_t>(k)].from) {
    steps.push_back(labels_[static_cast<std::size_t>(k)].step);
  }
  std::reverse(steps.begin(), steps.end());
  return steps;
}

// Keeps or offloads the input of i, and tries every way to continue.
template <class Lane>
void CopySearch<Lane>::expand(int i, std::int32_t from, bool taped_input) {
  ForwardRun stays{.label = labels_[static_cast<std::size_t>(from)]};
  item_ = input_bytes(i, taped_input);
  stays.room = setting_.problem.budget.count() - stays.label.kept - item_;
  if (stays.room < 0) return;
  stays.label.from = from;
  stays.label.step.leaves = false;
  ForwardRun leaves = stays;
  leaves.label.step.leaves = true;
  leaves.label.moved += item_;
  leaves.open = item_ > 0 && leaves.label.moved <= capacity_;
  std::array<ForwardRun, 2> runs{stays, leaves};
  for (const ForwardRun& run : runs) {
    if (run.open) keep_tape(run, i);
  }
  if (setting_.redo != nullptr) run_again(runs, i);
}

// F_all: layer i taped, nothing is recomputed.
template <class Lane>
void CopySearch<Lane>::keep_tape(ForwardRun run, int i) {
  if (i == last_ && run.label.step.leaves) return;  // it would have to come back at once
  const std::int64_t needs = backward_bytes(chain_, i), room = run.room;
  if (needs > room || !run_layer(run, i, i, taping_bytes(chain_, i))) return;
  Lane in = run.label.in;
  in.wait(in_, room - needs);
  in.pass(in_, chain_.layer(i).backward.count());
  add(run.label, {.first = i, .last = i, .taped = true}, in);
}

// F_ck i, F_none i+1..j: layers i..j untaped, all to be recomputed; or, where inputs need not stay
// with tapes, with the tape of j kept.
template <class Lane>
void CopySearch<Lane>::run_again(std::array<ForwardRun, 2>& runs, int i) {
  const bool free = setting_.redo->freedom() == Freedom::kInputMayLeave;
  const std::int64_t room = runs[0].room;
  for (int j = i; j <= last_; ++j) {
    for (ForwardRun& run : runs) {
      if (!run.open) continue;
      if (free && j > i) add_taped(run, i, j, room);
      run.open = j < last_ && run_layer(run, i, j, run_bytes(chain_, i, j)) &&
                 run.label.time() + work_[at(i)] < bound_;
      if (run.open) add_untaped(run, i, j, room);
    }
  }
}

template <class Lane>
void CopySearch<Lane>::add_untaped(const ForwardRun& run, int i, int j, std::int64_t room) {
  Lane in = run.label.in;
  if (const Redo* redo = best_redo({Recurrence::kWhole, i, j}, room, in)) {
    add(run.label, {.first = i, .last = j, .redo = redo}, in);
  }
}

template <class Lane>
void CopySearch<Lane>::add_taped(ForwardRun run, int i, int j, std::int64_t room) {
  if (!run_layer(run, i, j, taping_and_input_bytes(chain_, j))) return;
  Lane in = run.label.in;
  if (const Redo* redo = best_redo({Recurrence::kResumed, i, j}, room, in)) {
    add(run.label, {.first = i, .last = j, .taped = true, .redo = redo}, in);
  }
}

// Layer k of a run that began at i. False if it does not fit.
template <class Lane>
bool CopySearch<Lane>::run_layer(ForwardRun& run, int i, int k, std::int64_t bytes) {
  if (bytes > run.room) return false;
  Lane& out = run.label.out;
  out.wait(out_, run.room - bytes);
  out.pass(out_, chain_.layer(k).forward.count());
  if (Lane::kFreesWithinRun && k == i && run.label.step.leaves) {
    out.leave(out_, item_);
    run.room += item_;
  }
  return true;
}

// The way that ends first, waits for room included (Lemma 1), and the in lane after it. No other
// way is better: what is left to copy after a longer way is also left after a shorter one that
// idles for the difference.
template <class Lane>
const Redo* CopySearch<Lane>::best_redo(const SubChain& chain, std::int64_t room, Lane& in) {
  RedoTable& table = *setting_.redo;
  const Redo* best = nullptr;
  Lane found = in;
  const RedoTable::Ways ways = table.ways(chain);
  for (std::size_t k = 0; k < ways.count; ++k) {
    const Redo& redo = table.way(chain, ways.first + k);
    if (best != nullptr && in.now() + redo.duration >= found.now()) break;
    if (redo.most > room) continue;
    Lane lane = in;
    double passed = 0;
    for (const Need& need : table.needs(redo)) {
      lane.pass(in_, need.after - passed);
      lane.wait(in_, room - need.bytes);
      passed = need.after;
    }
    lane.pass(in_, redo.duration - passed);
    if (best != nullptr && lane.now() >= found.now()) continue;
    best = &redo;
    found = lane;
  }
  in = found;
  return best;
}

template <class Lane>
void CopySearch<Lane>::add(Label label, const CopyStep& step, const Lane& in) {
  const bool leaves = label.step.leaves;
  label.step = step;
  label.step.leaves = leaves;
  label.in = in;
  label.in.settle();
  if (leaves) {
    if (!Lane::kFreesWithinRun) label.out.leave(out_, item_);
    label.in.leave(in_, item_);
  } else {
    label.kept += item_;
  }
  label.out.settle();
  label.least = least_time(label);
  if (label.least >= bound_) return;
  std::vector<Label>& labels = place(step.last + 1, step.taped);
  labels.push_back(label);
  if (labels.size() >= 4 * setting_.most_labels) prune(labels);
}

// In the time that the bound leaves, a limited number of bytes can be copied out and back; with
// that much more memory, recomputation alone would have to be enough.
template <class Lane>
double CopySearch<Lane>::least_time(const Label& label) const {
  const int i = label.step.last + 1;
  const double least = label.time() + work_[at(i)], left = bound_ - least;
  if (i > last_ || left <= 0 || std::isinf(bound_)) return least;
  const double backward = work_[at(i)] - forward_[at(i)];
  const double moves = Lane::movable(out_, label.out, in_, label.in, left + forward_[at(i)],
                                     left + backward, left + work_[at(i)]);
  const double bytes = moves + static_cast<double>(setting_.problem.budget.count() - label.kept -
                                                   input_bytes(i, label.step.taped));
  if (setting_.redo != nullptr) return least + setting_.redo->least_extra(i, bytes);
  return bytes < static_cast<double>(all_kept_[at(i)]) ? kNoPlan : least;
}

// Drops labels that are no better than another one; if too many are left, also those that are
// hardly better than a more promising one.
template <class Lane>
void CopySearch<Lane>::prune(std::vector<Label>& labels) {
  std::stable_sort(labels.begin(), labels.end(),
                   [](const Label& a, const Label& b) { return a.time() < b.time(); });
  const double all = work_.front(), budget = static_cast<double>(setting_.problem.budget.count());
  keep_best(labels, {.time = kSame * all, .bytes = 0});
  if (labels.size() <= setting_.most_labels) return;
  std::stable_sort(labels.begin(), labels.end(),
                   [](const Label& a, const Label& b) { return a.least < b.least; });
  const double spread = std::isinf(bound_) ? all : bound_ - all;
  for (double coarse = std::max(kFirstMargin, coarse_ / kGrowth);
       labels.size() > setting_.most_labels && coarse < kWidestMargin; coarse *= kGrowth) {
    coarse_ = coarse;
    keep_best(labels, {.time = coarse * spread,
                       .bytes = static_cast<std::int64_t>(coarse * kBytesToTime * budget)});
  }
  // No margin tells them apart where layers take no time at all.
  labels.resize(std::min(labels.size(), setting_.most_labels));
}

template <class Lane>
void CopySearch<Lane>::keep_best(std::vector<Label>& labels, const Margin& margin) {
  choose_levels(labels);
  screen_.clear();
  std::size_t kept = 0;
  for (const Label& label : labels) {
    const bool is_worse = screen_.any(
        limit(label, margin), [&](std::size_t k) { return no_worse(labels[k], label, margin); });
    if (is_worse) continue;
    screen_.add(sketch(label, Role::kLagging));
    labels[kept++] = label;
  }
  labels.resize(kept);
}

// Levels in equal steps up to the most that is leaving in any label.
template <class Lane>
void CopySearch<Lane>::choose_levels(const std::vector<Label>& labels) {
  std::int64_t most_out = 0, most_in = 0;
  for (const Label& label : labels) {
    most_out = std::max(most_out, label.out.leaving(out_));
    most_in = std::max(most_in, label.in.leaving(in_));
  }
  constexpr auto kLevels = static_cast<std::int64_t>(Sketch::kLevels);
  for (std::int64_t level = 0; level < kLevels; ++level) {
    out_levels_[static_cast<std::size_t>(level)] = most_out / kLevels * level;
    in_levels_[static_cast<std::size_t>(level)] = most_in / kLevels * level;
  }
}

template <class Lane>
Sketch CopySearch<Lane>::sketch(const Label& label, Role role) const {
  return {.time = label.time(),
          .kept = static_cast<double>(label.kept),
          .moved = scarce_ ? static_cast<double>(label.moved) : 0,
          .out = label.out.levels(out_, out_levels_, Side::kOut, role),
          .in = label.in.levels(in_, in_levels_, Side::kIn, role)};
}

// The conditions of no_worse() that sketches can check.
template <class Lane>
SketchLimit CopySearch<Lane>::limit(const Label& label, const Margin& margin) const {
  SketchLimit limit{.sketch = sketch(label, Role::kOther),
                    .more = margin.time,
                    .shared = Lane::shared(label.out, label.in, work_[at(label.step.last + 1)])};
  limit.sketch.kept = static_cast<double>(label.kept + margin.bytes);
  if (scarce_) limit.sketch.moved = static_cast<double>(label.moved + margin.bytes);
  return limit;
}

// Copies out may go on after the turn, in parallel to the backward of layers that are already
// decided. b may have room for that and a not: a may then have to wait as long.
template <class Lane>
bool CopySearch<Lane>::no_worse(const Label& a, const Label& b, const Margin& margin) const {
  if (a.kept > b.kept + margin.bytes) return false;
  if (scarce_ && a.moved > b.moved + margin.bytes) return false;
  double spare = b.time() - a.time() + margin.time;
  if (spare < 0) return false;
  spare -= Lane::shared(b.out, b.in, work_[at(b.step.last + 1)]);
  const double out = a.out.lag(out_, b.out, Side::kOut);
  return out <= spare && out + a.in.lag(in_, b.in, Side::kIn) <= spare;
}

template <class Lane>
auto CopySearch<Lane>::place(int i, bool taped_input) -> std::vector<Label>& {
  return places_[2 * at(i) + (taped_input ? 1 : 0)];
}

template <class Lane>
std::int64_t CopySearch<Lane>::input_bytes(int i, bool taped_input) const {
  return (taped_input ? chain_.layer(i - 1).tape : chain_.output(i - 1)).count();
}

template class CopySearch<FluidLane>;
template class CopySearch<TensorLane>;

}  // namespace trireme::solve
