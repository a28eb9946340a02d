// Memory needs of rebuilt programs, combined from those of their sub-chains instead of walking each
// program.
//
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
void add_need(std::vector<Need>& needs, double after, std::int64_t bytes) {
  if (needs.empty() || bytes > needs.back().bytes) needs.push_back({after, bytes});
}

// Merges needs: one stands for several, with the bytes of the last from the time of the first on.
void thin_out(std::vector<Need>& needs, std::size_t most) {
  while (needs.size() > most) {
    auto least = needs.begin();
    for (auto need = needs.begin(); need + 1 != needs.end(); ++need) {
      if (need[1].bytes - need[0].bytes < least[1].bytes - least[0].bytes) least = need;
    }
    least[1].after = least[0].after;
    needs.erase(least);
  }
}

}  // namespace

RedoTable::RedoTable(const chain::Chain& chain, Source source)
    : chain_(chain),
      source_(std::move(source)),
      equal_(chain, source_.parts->costs().first(), source_.parts->costs().last(),
             EqualLayers::Backwards::kOfEqualTime) {
  const Costs& costs = source_.parts->costs();
  const auto layers = static_cast<std::size_t>(costs.last() - costs.first()) + 1;
  groups_.resize(layers * (layers + 1));
}

std::vector<program::Action> RedoTable::actions(const SubChain& chain, const Redo& way) const {
  return chain.recurrence == Recurrence::kWhole
             ? rebuild(*source_.parts, {chain.s, chain.t}, way.m)
             : rebuild_resumed(*source_.parts, {chain.s, chain.t}, way.m);
}

double RedoTable::least_extra(int i, double bytes) const {
  const Costs& costs = source_.parts->costs();
  // Every kept item may waste up to a slot by rounding; half a slot on average.
  const Slots wasted = costs.unit() == Bytes(1) ? 0 : (costs.last() - i + 2) / 2;
  const double slots = std::ceil(bytes / static_cast<double>(costs.unit().count()));
  if (slots < 0) return std::numeric_limits<double>::infinity();
  if (!(slots + static_cast<double>(wasted) <= static_cast<double>(source_.top))) return 0;
  return source_.first_pass->extra(Recurrence::kFirst, i, costs.last(),
                                   static_cast<Slots>(slots) + wasted);
}

// Numbers of slots only; the rest of a way is filled in when it is first read.
RedoTable::Ways RedoTable::ways(const SubChain& chain) {
  const int first = source_.parts->costs().first();
  const int s = equal_.twin(chain.s, chain.t);
  const auto row = static_cast<std::size_t>(s + chain.t - chain.s - first);
  const auto column = static_cast<std::size_t>(s - first);
  std::optional<Ways>& group =
      groups_[row * (row + 1) + 2 * column + (chain.recurrence == Recurrence::kWhole ? 0 : 1)];
  if (group) return *group;
  const std::vector<Slots> points = source_.breakpoints(chain);
  group = {.first = ways_.size(), .count = points.size()};
  for (std::size_t k = points.size(); k-- > 0;) ways_.push_back({.m = points[k]});
  return *group;
}

const Redo& RedoTable::in_force(const SubChain& chain, Slots m) {
  const Ways group = ways(chain);
  const auto begin = ways_.begin() + static_cast<std::ptrdiff_t>(group.first);
  const auto end = begin + static_cast<std::ptrdiff_t>(group.count);
  const auto found = std::partition_point(begin, end, [m](const Redo& way) { return way.m > m; });
  ensure(found != end, "a part of a feasible sub-chain is feasible");
  return way(chain, static_cast<std::size_t>(found - ways_.begin()));
}

void RedoTable::make(const SubChain& chain, Redo& redo) {
  std::vector<Need> needs;
  if (chain.recurrence == Recurrence::kResumed && chain.s == chain.t) {
    redo.duration = chain_.layer(chain.t).backward.count();
    add_need(needs, 0, backward_bytes(chain_, chain.t));
  } else {
    const Split split = best(chain, redo.m);
    const double later = add_parts(chain, split, redo.m, needs);
    redo.duration = add_forwards(chain, split, later, needs);
  }
  if (source_.most_needs > 0) thin_out(needs, source_.most_needs);
  redo.most = needs.back().bytes;
  redo.first_need = static_cast<std::uint32_t>(needs_.size());
  redo.needs = static_cast<std::uint32_t>(needs.size());
  needs_.insert(needs_.end(), needs.begin(), needs.end());
}

// The left side runs last, the right side before it. Returns how long both take.
double RedoTable::add_parts(const SubChain& chain, const Split& split, Slots m,
                            std::vector<Need>& needs) {
  const Redo& left = in_force({split.left, chain.s, split.at}, m);
  for (const Need& need : this->needs(left)) needs.push_back(need);
  if (split.at == chain.t) return left.duration;
  const Redo& right = in_force({chain.recurrence, split.at + 1, chain.t}, m - split.holds);
  const bool tape = split.keeps == Split::Keeps::kTape;
  const Bytes held = tape ? chain_.layer(split.at).tape : chain_.output(split.at);
  for (const Need& need : this->needs(right)) {
    add_need(needs, left.duration + need.after, held.count() + need.bytes);
  }
  return left.duration + right.duration;
}

// The forwards before the parts, which take `after`. Returns how long it all takes.
double RedoTable::add_forwards(const SubChain& chain, const Split& split, double after,
                               std::vector<Need>& needs) const {
  const bool tape = split.keeps == Split::Keeps::kTape;
  Bytes load = chain_.output(chain.t);
  if (chain.recurrence == Recurrence::kResumed) load += chain_.layer(chain.t).tape;
  for (int k = split.at; k >= chain.s; --k) {
    const std::int64_t input = k > chain.s ? chain_.output(k - 1).count() : 0;
    const bool taped = tape && k == split.at;
    add_need(
        needs, after,
        load.count() + (taped ? input + taping_bytes(chain_, k) : run_bytes(chain_, chain.s, k)));
    const bool bare = taped && chain.recurrence == Recurrence::kWhole && k == chain.t;
    after += (bare ? chain_.layer(k).again().time : chain_.layer(k).forward).count();
  }
  return after;
}

// The decision that `rebuild` takes.
Split RedoTable::best(const SubChain& chain, Slots m) const {
  const auto& [which, s, t] = chain;
  double least = std::numeric_limits<double>::infinity();
  std::optional<Split> found;
  each_split(source_.parts->costs(), freedom(), which, {s, t}, [&](const Split& split) {
    if (split.runs >= least || m < split.needs) return;
    double time = split.runs + source_.parts->extra(split.left, chain.s, split.at, m);
    if (split.at < chain.t) {
      time += source_.parts->extra(chain.recurrence, split.at + 1, chain.t, m - split.holds);
    }
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

std::int64_t taping_and_input_bytes(const chain::Chain& chain, int i) {
  const chain::LayerCost& layer = chain.layer(i);
  const Bytes gradient = i == chain.length() ? layer.output : Bytes(0);
  return (chain.output(i - 1) + layer.tape + std::max(layer.tape_transient, gradient)).count();
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
