// Reads slot tables; computes the first pass g over one.
//
// SPDX-License-Identifier: Apache-2.0
#include "trireme/solve/tables.h"

#include "relax.h"
#include "table_state.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace trireme::solve {
namespace {

// All negative m count the same.
int below_zero(Slots m) {
  return m < 0 ? -1 : static_cast<int>(m);
}

}  // namespace

void require_table_size(int first, int last) {
  const int layers = last - first + 1;
  if (layers <= kMaxTableLayers) return;
  throw InputError(concat("layers ", first, "..", last, ": a cost table takes at most ",
                          kMaxTableLayers, " layers, found ", layers,
                          "; merge layers, or use a solver without tables (sqrt, min_peak)"));
}

Tables::Tables(const chain::Chain& chain, int first, int last, const Options& options)
    : CostReader((require_table_size(first, last),
                  std::make_shared<const Costs>(chain, first, last, options.unit)),
                 options.freedom) {
  ensure(options.top >= 0 && options.top < Arena::kLongest, "a table has 0..65535 slots");
  ensure(options.threads >= 1, "a table is filled by at least one thread");
  state_ = std::make_unique<State>(chain::LayerRange{first, last}, options.top,
                                   options.freedom == Freedom::kInputMayLeave);
  fill_tables(costs(), freedom(), EqualLayers(chain, first, last), options, *state_);
}

Tables::~Tables() = default;
Tables::Tables(Tables&&) noexcept = default;

const Column& Tables::column(Recurrence which, int s, int t) const {
  ensure(which != Recurrence::kFirst, "a table holds no first pass: read it from a FirstPass");
  ensure(which == Recurrence::kWhole || s == t || state_->resumed,
         "in this table inputs stay with their tapes");
  return state_->column(which, s, t);
}

double Tables::extra(Recurrence which, int s, int t, Slots m) const {
  ensure(m <= top(), "the table ends below this number of slots");
  return static_cast<double>(column(which, s, t).at(below_zero(m)));
}

int Tables::top() const {
  return state_->top;
}

std::size_t Tables::size() const {
  std::size_t total = state_->whole.size();
  if (state_->resumed) total += state_->resumed->size();
  for (const Arena& arena : state_->arenas) total += arena.size();
  return total;
}

struct FirstPass::Columns {
  Arena arena;
  std::vector<Column> of;  ///< columns of layers first..last of the table
};

FirstPass::FirstPass(const Tables& tables, int last, Slots slack)
    : CostReader(tables), tables_(tables), last_(last), slack_(slack) {
  const int first = costs().first(), top = tables.top();
  ensure(first <= last && last <= costs().last(), "the last layer lies outside the table");
  columns_ = std::make_unique<Columns>();
  columns_->of.resize(static_cast<std::size_t>(last - first) + 1);
  const AlignedFloats memory = aligned_floats(static_cast<std::size_t>(block_of(top + kBlock)));
  for (int s = last; s >= first; --s) {
    Draft draft;
    draft.clear(memory.get(), top + 1);
    each_split(costs(), freedom(), Recurrence::kFirst, {s, last}, [&](const Split& split) {
      const Column right = split.at == last
                               ? free_column(0)
                               : columns_->of[static_cast<std::size_t>(split.at + 1 - first)];
      relax(draft, Step{.left = tables.state().column(split.left, s, split.at),
                        .right = right,
                        .holds = clipped(split.holds, top),
                        .needs = clipped(std::max(split.needs, split.holds + slack), top),
                        .runs = static_cast<float>(split.runs)});
    });
    columns_->of[static_cast<std::size_t>(s - first)] = finish(draft, columns_->arena);
  }
}

FirstPass::~FirstPass() = default;

double FirstPass::extra(Recurrence which, int s, int t, Slots m) const {
  if (which != Recurrence::kFirst) return tables_.extra(which, s, t, m);
  ensure(t == last_, "this first pass ends at another layer");
  ensure(m <= top(), "the table ends below this number of slots");
  const auto place = static_cast<std::size_t>(s - costs().first());
  return static_cast<double>(columns_->of[place].at(below_zero(m)));
}

}  // namespace trireme::solve
