// SPDX-License-Identifier: Apache-2.0
#include "cut_search.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace trireme::partition {
namespace {

/// Number of cuts up to which all of them are tried.
constexpr double kFewCuts = 2000;
/// Number of climbs, and passes per climb: a few tenths of a second.
constexpr std::size_t kMostClimbs = 2;
constexpr double kMostPasses = 1e8;
/// Most neighbouring ends that move together.
constexpr int kMostTogether = 4;

}  // namespace

CutSearch::CutSearch(const StageRoom& room, StagePolicy& policy, bool copies)
    : room_(room), policy_(policy), copies_(copies), timeline_(room) {}

Seconds CutSearch::time(int stage, chain::LayerRange layers) {
  const StageQuestion question = room_.asked(stage, layers, copies_);
  if (question.memory < Bytes(0)) return kNever;
  return policy_.time(question) / room_.speed(stage);
}

Seconds CutSearch::step(const Cut& cut, bool hidden, Seconds enough) {
  std::vector<PassTimes> times;
  for (int k = 0; k < room_.stages(); ++k) {
    const chain::LayerRange layers = layers_of(cut, k);
    const Seconds all = time(k, layers);
    if (all == kNever) return kNever;
    const Seconds forward = room_.forward(k, layers);
    const Seconds again = std::max(Seconds(0), all - room_.work(k, layers));
    times.push_back(
        {forward, all - forward, hidden && k + 1 < room_.stages() ? again : Seconds(0)});
  }
  return timeline_.step(cut, times, enough);
}

Seconds CutSearch::ideal_step(const Cut& cut) {
  std::vector<PassTimes> times;
  for (int k = 0; k < room_.stages(); ++k) {
    const chain::LayerRange layers = layers_of(cut, k);
    const Seconds forward = room_.forward(k, layers);
    times.push_back({forward, room_.work(k, layers) - forward, Seconds(0)});
  }
  return timeline_.step(cut, times);
}

// best() is exact for cuts whose stages all take at most `period`, so the first cut it finds has
// the least period of all: a better one would have been among those compared. Small periods come
// first because the window, and with it the number of stages to solve, grows with the period.
std::optional<Cut> CutSearch::least_period() {
  const Seconds least = least_possible_period();
  for (const double factor : {1.0, 1.03, 1.08, 1.15, 1.25, 1.4, 1.7, 2.2, 3.0, 5.0, 10.0}) {
    if (auto cut = best(Goal::kWorst, least * factor * (1 + kGain))) return cut;
  }
  return best(Goal::kWorst, kNever);
}

std::optional<Cut> CutSearch::least_sum(Seconds period) {
  return best(Goal::kSum, period);
}

std::vector<Cut> CutSearch::candidates(int most) {
  const bool few = choose(room_.layers() - 1, room_.stages() - 1) <= kFewCuts;
  const std::vector<Cut> cuts = few ? all_cuts() : cuts_for_periods();
  std::vector<Cut> chosen;
  for (const bool hidden : {false, true}) {
    std::vector<Cut> best = ranked(cuts, most, hidden);
    const std::size_t climbs = few ? 0 : std::min(kMostClimbs, best.size());
    for (std::size_t i = 0; i < climbs; ++i) best.push_back(climbed(best[i], hidden));
    for (Cut& cut : ranked(std::move(best), most, hidden)) {
      if (std::find(chosen.begin(), chosen.end(), cut) == chosen.end())
        chosen.push_back(std::move(cut));
    }
  }
  return chosen;
}

// No step is shorter than without recomputation, so cuts that would be too slow even then are not
// solved.
std::vector<Cut> CutSearch::ranked(std::vector<Cut> cuts, int most, bool hidden) {
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::vector<std::pair<Seconds, Cut>> hopeful;
  for (Cut& cut : cuts) hopeful.emplace_back(ideal_step(cut), std::move(cut));
  std::sort(hopeful.begin(), hopeful.end());
  std::vector<std::pair<Seconds, Cut>> judged;
  for (auto& [ideal, cut] : hopeful) {
    const Seconds enough = std::ssize(judged) == most ? judged.back().first : kNever;
    if (ideal > enough) break;
    const Seconds taken = step(cut, hidden, enough);
    if (taken == kNever) continue;
    std::pair<Seconds, Cut> entry(taken, std::move(cut));
    judged.insert(std::upper_bound(judged.begin(), judged.end(), entry), std::move(entry));
    if (std::ssize(judged) > most) judged.pop_back();
  }
  cuts.clear();
  for (auto& [taken, cut] : judged) cuts.push_back(std::move(cut));
  return cuts;
}

// Cuts for periods from the least to the one beyond which a longer period costs more than fill and
// drain can win back: a step takes about the sum of all stages plus (micro-batches - 1) periods,
// and the sum is at least that of a chain without recomputation.
std::vector<Cut> CutSearch::cuts_for_periods() {
  std::vector<Cut> cuts;
  const std::optional<Cut> shortest = least_period();
  if (!shortest) return cuts;
  cuts.push_back(*shortest);
  Seconds period;
  for (int k = 0; k < room_.stages(); ++k) {
    const chain::LayerRange layers = layers_of(*shortest, k);
    const Seconds out = k + 1 < room_.stages() ? room_.transfer(k, layers.last) : Seconds(0);
    period = std::max({period, time(k, layers), out});
  }
  period = period * (1 + kGain);
  const Cut thrifty = least_sum(period).value_or(*shortest);
  cuts.push_back(thrifty);
  Seconds work, sum;
  for (int k = 0; k < room_.stages(); ++k) {
    work += room_.work(k, layers_of(thrifty, k));
    sum += time(k, layers_of(thrifty, k));
  }
  const int others = std::max(1, room_.question().micro_batches - 1);
  const Seconds most = std::min(period * 2, period + (sum - work) / others);
  for (const double share : {0.1, 0.3, 0.6, 1.0}) {
    if (auto cut = least_sum(period + share * (most - period))) cuts.push_back(*std::move(cut));
  }
  return cuts;
}

Cut CutSearch::climbed(Cut cut, bool hidden) {
  const int stages = room_.stages();
  double left = kMostPasses / (2.0 * stages * room_.question().micro_batches);
  Seconds least = step(cut, hidden);
  const auto improve = [&](int from, int to, int by) {
    Cut moved = cut;
    for (int k = from; k <= to; ++k) moved[at(k)] += by;
    if (moved[at(from)] <= (from == 0 ? 0 : moved[at(from - 1)])) return false;
    if (moved[at(to)] >= moved[at(to + 1)]) return false;
    --left;
    const Seconds taken = step(moved, hidden, least);
    if (taken >= least * (1 - kGain)) return false;
    least = taken;
    cut = std::move(moved);
    return true;
  };
  for (bool better = true; better && left > 0;) {
    better = false;
    for (int from = 0; from + 1 < stages; ++from) {
      for (int to = from; to + 1 < stages && to - from < kMostTogether && left > 0; ++to) {
        for (const int by : {-1, 1}) {
          while (left > 0 && improve(from, to, by)) better = true;
        }
      }
    }
  }
  return cut;
}

// A stage that begins later cannot end earlier, so the latest end of one gives the latest of the
// next; where the next layer alone takes too long, a stage that begins earlier ends before it.
// Likewise from the other end for the earliest.
bool CutSearch::find_window(Seconds period) {
  const int stages = room_.stages(), layers = room_.layers();
  window_.least.assign(at(stages), layers);
  window_.most.assign(at(stages), layers);
  for (int k = 0, last = 0; k + 1 < stages; ++k) {
    const int first = last + 1, most = layers - (stages - 1 - k);
    while (last < most && room_.work(k, {first, last + 1}) <= period) ++last;
    if (last < k + 1) return false;
    window_.most[at(k)] = last;
  }
  for (int k = stages - 1, first = layers + 1; k > 0; --k) {
    const int last = first - 1;
    while (first > k + 1 && room_.work(k, {first - 1, last}) <= period) --first;
    if (first - 1 > layers - (stages - k)) return false;
    window_.least[at(k - 1)] = first - 1;
  }
  for (int k = 0; k < stages; ++k) {
    if (window_.least[at(k)] > window_.most[at(k)]) return false;
  }
  const int last_begin = stages > 1 ? window_.most[at(stages - 2)] + 1 : 1;
  return room_.work(0, {1, window_.least[0]}) <= period &&
         room_.work(stages - 1, {last_begin, layers}) <= period;
}

Seconds CutSearch::least_possible_period() {
  Seconds high, low;
  for (int k = 0; k < room_.stages(); ++k)
    high = std::max(high, room_.work(k, {1, room_.layers()}));
  constexpr int kHalvings = 40;
  for (int i = 0; i < kHalvings && high > low; ++i) {
    const Seconds middle = (low + high) / 2;
    (find_window(middle) ? high : low) = middle;
  }
  return high;
}

std::optional<Cut> CutSearch::best(Goal goal, Seconds period) {
  if (!find_window(period)) return std::nullopt;
  const auto value = [&](int k, chain::LayerRange layers, Seconds before,
                         Seconds least) -> std::optional<Seconds> {
    const bool is_last = k + 1 == room_.stages(), sums = goal == Goal::kSum;
    const Seconds out = is_last ? Seconds(0) : room_.transfer(k, layers.last);
    const Seconds work = room_.work(k, layers);
    if (out > period || work > (sums ? period : std::min(period, least)))
      return std::nullopt;  // longer stages take longer
    const Seconds extra = is_last ? Seconds(0) : 2 * (out + room_.latency(k));
    const Seconds sure = sums ? before + work + extra : std::max(before, work);
    if (sure >= least) return sure;
    const Seconds taken = time(k, layers);
    if (taken > period) return kNever;
    return sums ? before + taken + extra : std::max({before, taken, out});
  };
  return least_cut(window_, kNever, value);
}

std::vector<Cut> CutSearch::all_cuts() const {
  const int stages = room_.stages(), layers = room_.layers();
  Cut cut(at(stages), layers);
  std::iota(cut.begin(), cut.end() - 1, 1);
  std::vector<Cut> cuts{cut};
  // Next cut in lexicographic order: the last end that can still move does, and those after it
  // follow as closely as possible.
  for (int k = stages - 2; k >= 0; --k) {
    if (cut[at(k)] == layers - (stages - 1 - k)) continue;
    std::iota(cut.begin() + k, cut.end() - 1, cut[at(k)] + 1);
    cuts.push_back(cut);
    k = stages - 1;
  }
  return cuts;
}

}  // namespace trireme::partition
