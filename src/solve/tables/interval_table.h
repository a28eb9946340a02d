// The recurrences of tables.h without slots, for any kind of column that can take the least over
// decisions. Two kinds exist: exact step functions and least memory (step_column.h,
// least_column.h). For short chains and single questions; the fast version is in fill_tables.cpp.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/solve/tables.h"

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace trireme::solve {

/// A column is made by a draft: `Column::Draft draft(top)`, `draft.free_from(m)` (costs nothing
/// from m on), `draft.add(left, right or null, split)`, `draft.finish()`; it is read by `at(m)`,
/// and `size()` counts what it stores.
template <class Column>
class IntervalTable final : public CostReader {
 public:
  /// C, G and g (for the costs' last layer) for m <= top. Stops when more than `limit` numbers are
  /// stored: then complete() is false and nothing may be read.
  IntervalTable(std::shared_ptr<const Costs> costs, Freedom freedom, Slots top,
                std::size_t limit = static_cast<std::size_t>(-1));

  bool complete() const { return stored_ <= limit_; }
  double extra(Recurrence which, int s, int t, Slots m) const override {
    return column(which, s, t).at(m);
  }
  const Column& column(Recurrence which, int s, int t) const;

 private:
  Column solve(Recurrence which, int s, int t, Slots top) const;
  std::size_t place(int s, int t) const;
  void store(Column& place, Column column) {
    stored_ += column.size();
    place = std::move(column);
  }

  std::size_t limit_, stored_ = 0;
  std::vector<Column> whole_, resumed_, retaped_, first_;
};

template <class Column>
IntervalTable<Column>::IntervalTable(std::shared_ptr<const Costs> shared, Freedom freedom,
                                     Slots top, std::size_t limit)
    : CostReader(std::move(shared), freedom), limit_(limit) {
  const int first = costs().first(), last = costs().last();
  const auto n = static_cast<std::size_t>(last - first) + 1;
  whole_.resize(n * (n + 1) / 2);
  resumed_.resize(whole_.size());
  if (costs().counts_retapes()) retaped_.resize(whole_.size());
  first_.resize(n);
  for (int t = first; t <= last; ++t) {
    for (int s = t; s >= first && complete(); --s) {
      if (s == t || freedom == Freedom::kInputMayLeave) {
        store(resumed_[place(s, t)], solve(Recurrence::kResumed, s, t, top));
        if (costs().counts_retapes()) {
          store(retaped_[place(s, t)], solve(Recurrence::kRetaped, s, t, top));
        }
      }
      store(whole_[place(s, t)], solve(Recurrence::kWhole, s, t, top));
    }
  }
  for (int s = last; s >= first && complete(); --s) {
    store(first_[static_cast<std::size_t>(s - first)], solve(Recurrence::kFirst, s, last, top));
  }
}

template <class Column>
Column IntervalTable<Column>::solve(Recurrence which, int s, int t, Slots top) const {
  typename Column::Draft draft(top);
  if (s == t && (which == Recurrence::kResumed || which == Recurrence::kRetaped)) {
    draft.free_from(
        (which == Recurrence::kRetaped ? costs().retaped(t) : costs().taped(t)).backward);
    return draft.finish();
  }
  each_split(costs(), freedom(), which, {s, t}, [&](const Split& split) {
    draft.add(column(split.left, s, split.at),
              split.at < t ? &column(which, split.at + 1, t) : nullptr, split);
  });
  return draft.finish();
}

template <class Column>
const Column& IntervalTable<Column>::column(Recurrence which, int s, int t) const {
  switch (which) {
    case Recurrence::kWhole:
      return whole_[place(s, t)];
    case Recurrence::kResumed:
      return resumed_[place(s, t)];
    case Recurrence::kRetaped:
      return retaped_[place(s, t)];
    case Recurrence::kFirst:
      break;
  }
  return first_[static_cast<std::size_t>(s - costs().first())];
}

template <class Column>
std::size_t IntervalTable<Column>::place(int s, int t) const {
  const auto row = static_cast<std::size_t>(t - costs().first());
  return row * (row + 1) / 2 + static_cast<std::size_t>(s - costs().first());
}

}  // namespace trireme::solve
