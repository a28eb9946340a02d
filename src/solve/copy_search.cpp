// Labels through the layers. SPDX-License-Identifier: Apache-2.0
#include "copy_search.h"

#include <algorithm>
#include <cmath>

namespace trireme::solve {
namespace {

// Sums of the same times in different orders differ by less.
constexpr double kSame = 1e-12;

}  // namespace

template <class Lane>
CopySearch<Lane>::CopySearch(const CopySetting& setting)
    : setting_(setting),
      chain_(*setting.problem.chain),
      first_(setting.problem.first_layer),
      last_(setting.problem.last_layer),
      capacity_(setting.problem.link->capacity.count()),
      out_(setting.problem.link->out.count()),
      in_(setting.problem.link->in.count()) {
  const auto layers = static_cast<std::size_t>(last_ - first_) + 1;
  places_.resize(2 * (layers + 1));
  work_.assign(layers + 1, 0);
  std::int64_t all = chain_.output(first_ - 1).count();
  for (int i = last_; i >= first_; --i) {
    const chain::LayerCost& layer = chain_.layer(i);
    const auto k = static_cast<std::size_t>(i - first_);
    work_[k] = work_[k + 1] + layer.forward.count() + layer.backward.count();
    all += std::max(layer.tape, layer.output).count();
  }
  scarce_ = all > capacity_;
}

template <class Lane>
void CopySearch<Lane>::run(double bound) {
  bound_ = bound;
  place(first_, false).push_back({});
  for (int i = first_; i <= last_ + 1; ++i) {
    for (const bool taped_input : {false, true}) {
      std::vector<Label> labels = std::move(place(i, taped_input));
      prune(labels);
      const std::size_t begin = labels_.size();
      labels_.insert(labels_.end(), labels.begin(), labels.end());
      if (i > last_) continue;
      for (std::size_t k = begin; k < labels_.size(); ++k) {
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
    ends.push_back({label.time() + Lane::turn(out_, label.out, in_, label.in),
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

// Both fates of the input of i, and every way to go on.
template <class Lane>
void CopySearch<Lane>::expand(int i, std::int32_t from, bool taped_input) {
  Run stays{.label = labels_[static_cast<std::size_t>(from)]};
  item_ = (taped_input ? chain_.layer(i - 1).tape : chain_.output(i - 1)).count();
  stays.room = setting_.problem.budget.count() - stays.label.kept - item_;
  if (stays.room < 0) return;
  stays.label.from = from;
  stays.label.step.leaves = false;
  Run leaves = stays;
  leaves.label.step.leaves = true;
  leaves.label.moved += item_;
  leaves.open = item_ > 0 && leaves.label.moved <= capacity_;
  std::array<Run, 2> runs{stays, leaves};
  for (const Run& run : runs) {
    if (run.open) keep_tape(run, i);
  }
  if (setting_.redo != nullptr) run_again(runs, i);
}

// F_all: layer i taped, nothing is run again.
template <class Lane>
void CopySearch<Lane>::keep_tape(Run run, int i) {
  if (i == last_ && run.label.step.leaves) return;  // it would have to come back at once
  const std::int64_t needs = backward_bytes(chain_, i), room = run.room;
  if (needs > room || !run_layer(run, i, i, taping_bytes(chain_, i))) return;
  Lane in = run.label.in;
  in.wait(in_, room - needs);
  in.pass(in_, chain_.layer(i).backward.count());
  add(run, {.first = i, .last = i, .taped = true, .leaves = run.label.step.leaves}, in);
}

// F_ck i, F_none i+1..j: layers i..j untaped, all to be done again; or, where the input of a tape
// may leave, with the tape of j kept.
template <class Lane>
void CopySearch<Lane>::run_again(std::array<Run, 2>& runs, int i) {
  const bool free = setting_.redo->freedom() == Freedom::kInputMayLeave;
  const std::int64_t room = runs[0].room;
  for (int j = i; j <= last_; ++j) {
    for (Run& run : runs) {
      if (!run.open) continue;
      if (free && j > i) add_taped(run, i, j, room);
      run.open = j < last_ && run_layer(run, i, j, run_bytes(chain_, i, j)) &&
                 run.label.time() + work(i) < bound_;
      if (run.open) add_untaped(run, i, j, room);
    }
  }
}

template <class Lane>
void CopySearch<Lane>::add_untaped(const Run& run, int i, int j, std::int64_t room) {
  Lane in = run.label.in;
  if (const Redo* redo = best_redo(Part::kWhole, i, j, room, in)) {
    add(run, {.first = i, .last = j, .leaves = run.label.step.leaves, .redo = redo}, in);
  }
}

template <class Lane>
void CopySearch<Lane>::add_taped(Run run, int i, int j, std::int64_t room) {
  if (!run_layer(run, i, j, chain_.output(j - 1).count() + taping_bytes(chain_, j))) return;
  Lane in = run.label.in;
  if (const Redo* redo = best_redo(Part::kResumed, i, j, room, in)) {
    add(run, {.first = i, .last = j, .taped = true, .leaves = run.label.step.leaves, .redo = redo},
        in);
  }
}

// Layer k of a run that began at i. False if it does not fit.
template <class Lane>
bool CopySearch<Lane>::run_layer(Run& run, int i, int k, std::int64_t bytes) {
  if (bytes > run.room) return false;
  run.label.out.wait(out_, run.room - bytes);
  run.label.out.pass(out_, chain_.layer(k).forward.count());
  if (Lane::kFreesWithinRun && k == i && run.label.step.leaves) {
    run.label.out.leave(out_, item_);
    run.room += item_;
  }
  return true;
}

// The way that is done first, waits for room inside (Lemma 1), and the in lane after it. None is
// better than the one done first: whatever a longer way gains, idling after a shorter one gains too.
template <class Lane>
const Redo* CopySearch<Lane>::best_redo(Part part, int i, int j, std::int64_t room, Lane& in) {
  const Redo* best = nullptr;
  Lane found = in;
  for (const Redo& redo : setting_.redo->ways(part, i, j)) {
    if (best != nullptr && in.now() + redo.duration >= found.now()) break;
    if (redo.most() > room) continue;
    Lane lane = in;
    double passed = 0;
    for (const Need& need : redo.needs) {
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
void CopySearch<Lane>::add(const Run& run, const CopyStep& step, const Lane& in) {
  const double rest = step.last < last_ ? work(step.last + 1) : 0;
  if (run.label.out.now() + in.now() + rest >= bound_) return;
  Label label = run.label;
  label.step = step;
  label.in = in;
  label.in.settle();
  if (step.leaves) {
    if (!Lane::kFreesWithinRun) label.out.leave(out_, item_);
    label.in.leave(in_, item_);
  } else {
    label.kept += item_;
  }
  label.out.settle();
  std::vector<Label>& labels = place(step.last + 1, step.taped);
  labels.push_back(label);
  if (labels.size() >= 4 * setting_.most_labels) prune(labels);
}

template <class Lane>
auto CopySearch<Lane>::place(int i, bool taped_input) -> std::vector<Label>& {
  return places_[2 * static_cast<std::size_t>(i - first_) + (taped_input ? 1 : 0)];
}

// Drops what is no better than another label; if that leaves too many, also what is hardly better.
template <class Lane>
void CopySearch<Lane>::prune(std::vector<Label>& labels) {
  std::stable_sort(labels.begin(), labels.end(),
                   [](const Label& a, const Label& b) { return a.time() < b.time(); });
  keep_best(labels, {.time = kSame * (bound_ < 1e300 ? bound_ : work(first_)), .bytes = 0});
  for (; labels.size() > setting_.most_labels; coarse_ *= 1.5) {
    complete_ = false;
    const double spare = bound_ < 1e300 ? bound_ - work(first_) : work(first_);
    keep_best(labels, {.time = coarse_ * spare,
                       .bytes = static_cast<std::int64_t>(
                           coarse_ * static_cast<double>(setting_.problem.budget.count()))});
  }
  if (!complete_) coarse_ /= 1.5;
  most_seen_ = std::max(most_seen_, labels.size());
}

template <class Lane>
void CopySearch<Lane>::keep_best(std::vector<Label>& labels, const Margin& margin) const {
  std::size_t kept = 0;
  for (std::size_t k = 0; k < labels.size(); ++k) {
    const auto end = labels.begin() + static_cast<std::ptrdiff_t>(kept);
    if (std::none_of(labels.begin(), end,
                     [&](const Label& l) { return no_worse(l, labels[k], margin); })) {
      labels[kept++] = labels[k];
    }
  }
  labels.resize(kept);
}

template <class Lane>
bool CopySearch<Lane>::no_worse(const Label& a, const Label& b, const Margin& margin) const {
  if (a.kept > b.kept + margin.bytes || (scarce_ && a.moved > b.moved + margin.bytes)) return false;
  const double spare = b.time() - a.time() + margin.time;
  if (spare < 0) return false;
  const double out = a.out.lag(out_, b.out, Side::kOut);
  return out <= spare && out + a.in.lag(in_, b.in, Side::kIn) <= spare;
}

template class CopySearch<FluidLane>;
template class CopySearch<TensorLane>;

}  // namespace trireme::solve
