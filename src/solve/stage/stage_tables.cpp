// Columns of stages, and the search over slack.
//
// SPDX-License-Identifier: Apache-2.0
#include "stage_tables.h"

#include "tables/table_state.h"

#include "trireme/core/error.h"

#include <algorithm>
#include <cmath>

namespace trireme::solve {

// g of one slack, as rebuild_stage() reads it.
class StageTables::Reader final : public CostReader {
 public:
  Reader(StageTables& tables, Slots slack)
      : CostReader(tables.tables_), tables_(tables), family_(tables.family(slack)) {}

  double extra(Recurrence which, int s, int t, Slots m) const override {
    if (which != Recurrence::kFirst) return tables_.tables_.extra(which, s, t, m);
    return static_cast<double>(
        tables_.column(family_, {s, t}).at(m < 0 ? -1 : static_cast<int>(m)));
  }
  Slots slack() const override { return family_.slack; }

 private:
  StageTables& tables_;
  Family& family_;
};

StageTables::StageTables(const chain::Chain& chain, chain::LayerRange layers,
                         const Options& options)
    : first_(layers.first),
      last_(layers.last),
      options_(options),
      tables_(chain, first_, last_, options.tables),
      equal_(chain, first_, last_),
      arrays_(costs(), top()),
      free_(static_cast<std::size_t>(layers.size()), free_column(0)),
      memory_(aligned_floats(static_cast<std::size_t>(block_of(top() + 2 * kBlock)))),
      alone_(new_family(0, top(), false)),
      roomy_(new_family(0, top() / std::max(1, options.least_in_flight), true)) {
  const auto count = free_.size();
  share_ = equal_.different() < count * (count + 1) / 4;
  families_.resize(static_cast<std::size_t>(top() / options.slack_step) + 1);
  all_taped_.resize(count);
  for (int t = first_; t <= last_; ++t) {
    Slots most = 0;
    for (int s = t; s >= first_; --s) {
      most = std::max({costs().backward(s), costs().taping(s), costs().tape(s) + most});
      all_taped_[static_cast<std::size_t>(t - first_)].push_back(most);
    }
  }
}

StageTables::~StageTables() = default;

StageTables::Choice StageTables::best(chain::LayerRange layers, int in_flight, Slots available) {
  Choice best;
  if (available < 0) return best;
  const int most = static_cast<int>(std::min<Slots>(available, top()));
  const Column& alone = column(alone_, layers);
  if (in_flight == 1) return {static_cast<double>(alone.at(most)), 0, most};
  ensure(in_flight >= options_.least_in_flight, "these tables are for more in flight");
  const Column& roomy = column(roomy_, layers);
  const int d = options_.slack_step, w = in_flight;
  const int step = d == 1 ? w : (w + d - 1) / d * d, offset = d == 1 ? most % w : 0;
  const auto slack = [&](int j) { return offset + j * step; };
  const auto kept = [&](int j) { return (most - slack(j)) / w; };
  const auto working_bound = [&](int j) { return alone.at(slack(j) + kept(j)); };
  const auto kept_bound = [&](int j) { return roomy.at(kept(j)); };
  const int count = (most - offset) / step + 1;
  int up = 0;  // first index where more slack cannot help
  for (int end = count; up < end;) {
    const int middle = (up + end) / 2;
    if (working_bound(middle) <= kept_bound(middle)) {
      end = middle;
    } else {
      up = middle + 1;
    }
  }
  int down = up - 1;
  while (up < count || down >= 0) {
    const float above = up < count ? kept_bound(up) : kNever;
    const float below = down >= 0 ? working_bound(down) : kNever;
    if (!(static_cast<double>(std::min(above, below)) < best.extra)) break;
    const int j = above <= below ? up++ : down--;
    const int m = slack(j) + kept(j);
    const auto extra = static_cast<double>(column(family(slack(j)), layers).at(m));
    if (extra < best.extra) best = {extra, slack(j), m};
  }
  return best;
}

program::StageProgram StageTables::rebuilt(chain::LayerRange layers, const Choice& choice) {
  ensure(std::isfinite(choice.extra), "nothing to rebuild: the stage does not fit");
  return rebuild_stage(Reader(*this, choice.slack), layers, choice.m);
}

Slots StageTables::available(int first, int in_flight, Bytes memory) const {
  return costs().slots_in(memory - in_flight * costs().input_bytes(first));
}

std::size_t StageTables::size() const {
  std::size_t total = tables_.size() + arena_.size();
  const auto add = [&](const Family& family) {
    for (const Row& row : family.rows)
      total += static_cast<std::size_t>(row.count()) * 2 * sizeof(Column);
    total += family.shared.size() * (sizeof(Column) + 4 * sizeof(void*));
  };
  add(alone_);
  add(roomy_);
  for (const auto& family : families_) {
    if (family) add(*family);
  }
  return total;
}

void StageTables::Row::push(const Column& column) {
  if (index(count_) == columns_.size()) {
    std::vector<Column> larger(std::max<std::size_t>(4, 2 * columns_.size()));
    std::copy(columns_.begin(), columns_.end(), larger.end() - count_);
    columns_ = std::move(larger);
  }
  columns_[columns_.size() - 1 - index(count_)] = column;
  ++count_;
}

const Column& StageTables::column(Family& family, chain::LayerRange layers) {
  const auto [first, last] = layers;
  const auto row_of = static_cast<std::size_t>(last - first_);
  for (int s = last - family.rows[row_of].count(); s >= first; --s) {
    if (!share_) {
      family.rows[row_of].push(made(family, s, last));
      continue;
    }
    const auto [place, fresh] = family.shared.try_emplace(class_of(s, last));
    if (fresh) place->second = made(family, s, last);
    family.rows[row_of].push(place->second);
  }
  return *family.rows[row_of].from_end(last - first);
}

Column StageTables::made(const Family& family, int s, int t) {
  Draft draft;
  draft.values = memory_.get();
  draft.lo = draft.end = std::min(family.reach, flat_from(family, s, t)) + 1;
  std::fill(draft.values + block_of(family.slack), draft.values + block_of(draft.end + kBlock - 1),
            kNever);
  add_splits(draft, family, s, t);
  add_last(draft, family, s, t);
  return finish(draft, arena_);
}

// All decisions but those that end the forward. The slack is checked by those alone: what is kept
// before them is subtracted from m on the way.
void StageTables::add_splits(Draft& draft, const Family& family, int s, int t) {
  if (s == t) return;
  const Tables::State& state = tables_.state();
  const Row& row = family.rows[static_cast<std::size_t>(t - first_)];
  const auto before = static_cast<std::size_t>(s - first_);
  const Split own = keep_tape(costs(), Recurrence::kFirst, {s, t}, s);
  relax(draft,
        Step{.left = family.roomy ? free_column(0) : state.column(Recurrence::kResumed, s, s),
             .right = *row.from_end(t - s - 1),
             .holds = clipped(own.holds, top()),
             .needs = family.roomy ? 0 : clipped(own.needs, top()),
             .runs = static_cast<float>(own.runs)});
  Steps steps{.left = family.roomy ? free_.data() : state.whole.from(s),
              .right = row.from_end(t - s - 1),
              .holds = arrays_.output(s),
              .run = family.roomy ? arrays_.nothing() : arrays_.run(s, s),
              .least = arrays_.nothing(),
              .prefix = arrays_.redone(s),
              .before = *arrays_.forward(s - 1),
              .load = 0,
              .count = t - s};
  relax(draft, steps);
  if (options_.tables.freedom == Freedom::kInputStays || t - s < 2) return;
  steps.left = family.roomy ? free_.data() + before : state.resumed->from(s) + 1;
  steps.right = row.from_end(t - s - 2);
  steps.holds = arrays_.tape(s + 1);
  steps.prefix = arrays_.forward(s);
  steps.least = family.roomy ? arrays_.nothing() : arrays_.taping_with_input(s + 1);
  steps.count = t - s - 1;
  relax(draft, steps);
}

// Pass x[t] on, or keep the tape of t.
void StageTables::add_last(Draft& draft, const Family& family, int s, int t) {
  const Tables::State& state = tables_.state();
  const auto add = [&](const Split& split, const Column& left) {
    const Slots needs = family.roomy ? 0 : split.needs;
    relax(draft, Step{.left = family.roomy ? free_column(0) : left,
                      .right = free_column(0),
                      .holds = clipped(split.holds, top()),
                      .needs = clipped(std::max(needs, split.holds + family.slack), top()),
                      .runs = static_cast<float>(split.runs)});
  };
  if (s == t || options_.tables.freedom == Freedom::kInputMayLeave) {
    add(keep_tape(costs(), Recurrence::kFirst, {s, t}, t),
        state.column(Recurrence::kResumed, s, t));
  }
  add(keep_output(costs(), Recurrence::kFirst, {s, t}, t), state.column(Recurrence::kWhole, s, t));
}

StageTables::Family& StageTables::family(Slots slack) {
  if (slack == 0) return alone_;
  const int d = options_.slack_step, found = static_cast<int>(slack);
  ensure(found % d == 0 && found <= top(), "no family has this slack");
  auto& family = families_[static_cast<std::size_t>(found / d)];
  if (!family) {
    const int reach = found + (top() - found) / std::max(1, options_.least_in_flight);
    family = std::make_unique<Family>(new_family(found, reach, false));
  }
  return *family;
}

StageTables::Family StageTables::new_family(int slack, int reach, bool roomy) const {
  Family family{.slack = slack, .reach = reach, .roomy = roomy, .rows = {}, .shared = {}};
  family.rows.resize(static_cast<std::size_t>(last_ - first_) + 1);
  return family;
}

// Stages are equal if their layers are; a stage that ends with the loss equals none without.
std::uint64_t StageTables::class_of(int s, int t) const {
  const auto twin = static_cast<std::uint64_t>(equal_.twin(s, t));
  const auto length = static_cast<std::uint64_t>(t - s);
  return (twin << 32 | length) << 1 | (costs().is_loss(t) ? 1U : 0U);
}

// The m from which on all tapes of s..t can be kept.
int StageTables::flat_from(const Family& family, int s, int t) const {
  const auto last = static_cast<std::size_t>(t - first_);
  const Slots working = family.roomy ? 0 : all_taped_[last][static_cast<std::size_t>(t - s)];
  const Slots kept = family.slack + costs().tapes(s, t);
  return static_cast<int>(std::min<Slots>(std::max(working, kept), top()));
}

}  // namespace trireme::solve
