// Needs of rebuilt programs, put together from those of their parts instead of walking each
// program.
// SPDX-License-Identifier: Apache-2.0
#include "redo.h"

#include "trireme/core/error.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

namespace trireme::solve {
namespace {

// What an earlier action needs matters only if it is more than all later ones need.
void add_need(Redo& redo, double after, std::int64_t bytes) {
  if (redo.needs.empty() || bytes > redo.needs.back().bytes) redo.needs.push_back({after, bytes});
}

Part left_of(const Split& split) {
  return split.keeps == Split::Keeps::kOutput ? Part::kWhole : Part::kResumed;
}

}  // namespace

const std::vector<Redo>& RedoTable::ways(Part part, int s, int t) {
  std::vector<Redo>& ways = planned(part, s, t);
  for (Redo& redo : ways) {
    if (redo.needs.empty()) redo = compose(part, s, t, redo.m);
  }
  return ways;
}

std::vector<program::Action> RedoTable::actions(Part part, int s, int t, const Redo& way) const {
  return part == Part::kWhole ? rebuild(*source_.parts, s, t, way.m)
                              : rebuild_resumed(*source_.parts, s, t, way.m);
}

double RedoTable::least_extra(int i, double bytes) const {
  const Costs& costs = source_.parts->costs();
  // Every kept item may waste up to a slot; half of them is what it comes to.
  const Slots wasted = costs.unit() == Bytes(1) ? 0 : (costs.last() - i + 2) / 2;
  const double slots = std::ceil(bytes / static_cast<double>(costs.unit().count()));
  if (slots < 0) return std::numeric_limits<double>::infinity();
  if (!(slots + static_cast<double>(wasted) <= static_cast<double>(source_.top))) return 0;
  return source_.first_pass->extra(Part::kFirst, i, costs.last(),
                                   static_cast<Slots>(slots) + wasted);
}

// Without their needs, which are filled in when somebody asks.
std::vector<Redo>& RedoTable::planned(Part part, int s, int t) {
  const std::uint64_t key = (static_cast<std::uint64_t>(s) << 32) |
                            (static_cast<std::uint64_t>(t) << 1) | (part == Part::kWhole ? 0U : 1U);
  std::unique_ptr<std::vector<Redo>>& place = ways_[key];
  if (place) return *place;
  place = std::make_unique<std::vector<Redo>>();
  const std::vector<Slots> points = source_.breakpoints(part, s, t);
  for (auto m = points.rbegin(); m != points.rend(); ++m) place->push_back({.m = *m, .needs = {}});
  return *place;
}

const Redo& RedoTable::in_force(Part part, int s, int t, Slots m) {
  std::vector<Redo>& ways = planned(part, s, t);
  const auto found =
      std::find_if(ways.begin(), ways.end(), [m](const Redo& way) { return way.m <= m; });
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
  const Redo& left = in_force(left_of(split), s, split.at, m);
  redo.duration = left.duration;
  redo.needs = left.needs;
  if (split.at < t) {
    const Redo& right = in_force(part, split.at + 1, t, m - split.holds);
    const Bytes held = tape ? chain_.layer(split.at).tape : chain_.output(split.at);
    for (const Need& need : right.needs) {
      add_need(redo, redo.duration + need.after, held.count() + need.bytes);
    }
    redo.duration += right.duration;
  }
  Bytes load = chain_.output(t);
  if (part == Part::kResumed) load += chain_.layer(t).tape;
  for (int k = split.at; k >= s; --k) {
    const bool taped = tape && k == split.at;
    const std::int64_t input = k > s ? chain_.output(k - 1).count() : 0;
    add_need(redo, redo.duration,
             load.count() + (taped ? input + taping_bytes(chain_, k) : run_bytes(chain_, s, k)));
    redo.duration += chain_.layer(k).forward.count();
  }
  return redo;
}

// The decision that `rebuild` takes.
Split RedoTable::best(Part part, int s, int t, Slots m) const {
  double least = std::numeric_limits<double>::infinity();
  std::optional<Split> found;
  each_split(source_.parts->costs(), freedom(), part, s, t, [&](const Split& split) {
    if (split.runs >= least || m < split.needs) return;
    double time = split.runs + source_.parts->extra(left_of(split), s, split.at, m);
    if (split.at < t) time += source_.parts->extra(part, split.at + 1, t, m - split.holds);
    if (time >= least) return;
    least = time;
    found = split;
  });
  ensure(found.has_value(), "a breakpoint is feasible");
  return *found;
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

std::vector<std::int64_t> keep_all_bytes(const Problem& problem) {
  const int first = problem.first_layer;
  std::vector<std::int64_t> bytes(static_cast<std::size_t>(problem.last_layer - first) + 2, 0);
  for (int i = problem.last_layer; i >= first; --i) {
    const auto k = static_cast<std::size_t>(i - first);
    bytes[k] = std::max({taping_bytes(*problem.chain, i), backward_bytes(*problem.chain, i),
                         problem.chain->layer(i).tape.count() + bytes[k + 1]});
  }
  return bytes;
}

}  // namespace trireme::solve
