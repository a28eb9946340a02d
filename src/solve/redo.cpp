// Needs of rebuilt programs, put together from those of their parts instead of walking each program.
// SPDX-License-Identifier: Apache-2.0
#include "redo.h"

#include "trireme/core/error.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

namespace trireme::solve {
namespace {

// Adds what an earlier action needs: it matters only if it is more than all later ones need.
void add_need(Redo& redo, double after, std::int64_t bytes) {
  if (redo.needs.empty() || bytes > redo.needs.back().bytes) redo.needs.push_back({after, bytes});
}

}  // namespace

RedoTable::RedoTable(const chain::Chain& chain, const CostReader& reader, Breakpoints breakpoints)
    : chain_(chain), reader_(reader), breakpoints_(std::move(breakpoints)) {}

const std::vector<Redo>& RedoTable::ways(Part part, int s, int t) {
  std::vector<Redo>& ways = made(part, s, t);
  for (Redo& redo : ways) {
    if (redo.needs.empty()) redo = compose(part, s, t, redo.m);
  }
  return ways;
}

std::vector<program::Action> RedoTable::actions(Part part, int s, int t, const Redo& way) const {
  return part == Part::kWhole ? rebuild(reader_, s, t, way.m)
                              : rebuild_resumed(reader_, s, t, way.m);
}

// Fastest first, i.e. from the largest m down; needs are filled in when somebody asks.
std::vector<Redo>& RedoTable::made(Part part, int s, int t) {
  const std::uint64_t key = (static_cast<std::uint64_t>(s) << 32) |
                            (static_cast<std::uint64_t>(t) << 1) | (part == Part::kWhole ? 0U : 1U);
  std::unique_ptr<std::vector<Redo>>& place = ways_[key];
  if (place) return *place;
  const std::vector<Slots> points = breakpoints_(part, s, t);
  place = std::make_unique<std::vector<Redo>>();
  place->reserve(points.size());
  for (auto m = points.rbegin(); m != points.rend(); ++m) place->push_back({.m = *m, .needs = {}});
  return *place;
}

// The one in force at m.
const Redo& RedoTable::way(Part part, int s, int t, Slots m) {
  std::vector<Redo>& ways = made(part, s, t);
  const auto found = std::find_if(ways.begin(), ways.end(), [m](const Redo& w) { return w.m <= m; });
  ensure(found != ways.end(), "a part of a feasible sub-chain is feasible");
  if (found->needs.empty()) *found = compose(part, s, t, found->m);
  return *found;
}

Redo RedoTable::compose(Part part, int s, int t, Slots m) {
  Redo redo{.m = m, .needs = {}};
  if (part == Part::kResumed && s == t) {
    redo.duration = chain_.layer(t).backward.count();
    add_need(redo, 0, backward_bytes(chain_, t));
    return redo;
  }
  const Split split = best(part, s, t, m);
  const bool tape = split.keeps == Split::Keeps::kTape;
  const Redo& left = way(tape ? Part::kResumed : Part::kWhole, s, split.at, m);
  redo.duration = left.duration;
  redo.needs = left.needs;
  if (split.at < t) {
    const Redo& right = way(part, split.at + 1, t, m - split.holds);
    const std::int64_t held =
        (tape ? chain_.layer(split.at).tape : chain_.output(split.at)).count();
    for (const Need& need : right.needs) add_need(redo, redo.duration + need.after, held + need.bytes);
    redo.duration += right.duration;
  }
  const std::int64_t loaded = load(part, t);
  for (int k = split.at; k >= s; --k) {
    const bool taped = tape && k == split.at;
    const std::int64_t input = k > s ? chain_.output(k - 1).count() : 0;
    add_need(redo, redo.duration,
             loaded + (taped ? input + taping_bytes(chain_, k) : run_bytes(chain_, s, k)));
    redo.duration += chain_.layer(k).forward.count();
  }
  return redo;
}

// The decision that `rebuild` takes.
Split RedoTable::best(Part part, int s, int t, Slots m) const {
  double least = std::numeric_limits<double>::infinity();
  std::optional<Split> found;
  each_split(reader_.costs(), reader_.freedom(), part, s, t, [&](const Split& split) {
    if (split.runs >= least || m < split.needs) return;
    const Part left = split.keeps == Split::Keeps::kOutput ? Part::kWhole : Part::kResumed;
    double time = split.runs + reader_.extra(left, s, split.at, m);
    if (split.at < t) time += reader_.extra(part, split.at + 1, t, m - split.holds);
    if (time >= least) return;
    least = time;
    found = split;
  });
  ensure(found.has_value(), "a breakpoint is feasible");
  return *found;
}

std::int64_t RedoTable::load(Part part, int t) const {
  const Bytes gradient = chain_.output(t);
  return (part == Part::kWhole ? gradient : gradient + chain_.layer(t).tape).count();
}

std::int64_t run_bytes(const chain::Chain& chain, int s, int k) {
  const Bytes input = k > s ? chain.output(k - 1) : Bytes(0);
  return (input + chain.output(k) + chain.layer(k).forward_transient).count();
}

std::int64_t taping_bytes(const chain::Chain& chain, int i) {
  return (chain.layer(i).tape + chain.layer(i).tape_transient).count();
}

std::int64_t backward_bytes(const chain::Chain& chain, int i) {
  const chain::LayerCost& layer = chain.layer(i);
  return (layer.output + layer.tape + layer.backward_transient).count();
}

}  // namespace trireme::solve
