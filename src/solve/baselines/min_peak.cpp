// Least-peak subsets of kept outputs. With x[i] kept, M(i) is the least memory of everything after
// layer i:
//
//   M(last) = 0;  M(i) = x[i] + min over j > i of max( M(j), U(i,j) )
//   U(i,j)  = what the segment i+1..j needs next to x[i]: its first, untaped run; its taped run
//             under the gradient of x[j]; its backwards. The last segment is taped at once, before
//             there is a gradient.
//
// U is updated from j to j + 1 in constant time. The last layer of a recomputed segment makes its
// tape by a retape.
//
// SPDX-License-Identifier: Apache-2.0
#include "trireme/solve/min_peak.h"

#include "baselines.h"
#include "judge/judge.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <limits>
#include <utility>

namespace trireme::solve {
namespace {

constexpr int kMostLayersOfSum = 2500;  // O(L^3)
constexpr Bytes kUnbounded(std::numeric_limits<std::int64_t>::max());

// U(i,j) for one i and j = i+1, i+2, ...
class SegmentNeed {
 public:
  SegmentNeed(const chain::Chain& chain, int last) : chain_(chain), last_(last) {}
  /// Takes layer j in and returns U(i,j).
  Bytes extend(int j);

 private:
  const chain::Chain& chain_;
  int last_;
  Bytes input_, tapes_, run_, taping_, backward_;
};

// Kept outputs for one bound on the tapes of a segment.
class BoundedSegments {
 public:
  BoundedSegments(const chain::Chain& chain, int first, int last);
  const std::vector<Bytes>& sums() const { return sums_; }
  /// Least sum of kept outputs, or kUnbounded if no cut keeps the bound.
  Bytes solve(Bytes bound);
  std::vector<int> starts() const;

 private:
  std::size_t at(int i) const { return static_cast<std::size_t>(i - first_ + 1); }
  const chain::Chain& chain_;
  int first_, last_;
  std::vector<Bytes> sums_;  ///< tapes of first..i
  std::vector<Bytes> kept_;  ///< least sum of kept outputs from x[i] on
  std::vector<int> next_;    ///< end of the segment after x[i]
};

std::vector<int> follow(const std::vector<int>& ends, int first, int last);

}  // namespace

Result solve_min_peak(const Problem& problem, std::string_view argument) {
  if (!argument.empty() && argument != "sum") refuse_argument("min_peak", argument, "sum");
  const int layers = problem.last_layer - problem.first_layer + 1;
  if (!argument.empty() && layers > kMostLayersOfSum) {
    throw InputError(concat("min_peak sum: takes at most ", kMostLayersOfSum, " layers, found ",
                            layers, "; use min_peak"));
  }
  const auto least = argument.empty() ? least_peak : least_sum;
  return within_budget(
      problem,
      segmented(problem, least(*problem.chain, problem.first_layer, problem.last_layer).starts));
}

Segments least_peak(const chain::Chain& chain, int first, int last) {
  ensure(first >= 1 && first <= last && last <= chain.length(), "layers lie outside the chain");
  const auto at = [first](int i) { return static_cast<std::size_t>(i - first + 1); };
  std::vector<Bytes> peak(at(last) + 1);
  std::vector<int> next(at(last) + 1, last);
  for (int i = last - 1; i >= first - 1; --i) {
    SegmentNeed need(chain, last);
    Bytes least = kUnbounded;
    for (int j = i + 1; j <= last; ++j) {
      const Bytes segment = need.extend(j);
      const Bytes both = std::max(segment, peak[at(j)]);
      if (both < least) {
        least = both;
        next[at(i)] = j;
      }
    }
    peak[at(i)] = chain.output(i) + least;
  }
  return {.starts = follow(next, first, last), .value = peak[0]};
}

Segments least_sum(const chain::Chain& chain, int first, int last) {
  ensure(first >= 1 && first <= last && last <= chain.length(), "layers lie outside the chain");
  BoundedSegments segments(chain, first, last);
  std::vector<Bytes> bounds;
  for (std::size_t i = 0; i < segments.sums().size(); ++i) {
    for (std::size_t j = i + 1; j < segments.sums().size(); ++j) {
      bounds.push_back(segments.sums()[j] - segments.sums()[i]);
    }
  }
  std::sort(bounds.begin(), bounds.end());
  bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
  Segments best{.starts = {}, .value = kUnbounded};
  for (const Bytes bound : bounds) {
    if (bound >= best.value) break;
    const Bytes kept = segments.solve(bound);
    if (kept == kUnbounded || kept + bound >= best.value) continue;
    best = {.starts = segments.starts(), .value = kept + bound};
  }
  return best;
}

namespace {

Bytes SegmentNeed::extend(int j) {
  const chain::LayerCost& layer = chain_.layer(j);
  run_ = std::max(run_, input_ + layer.output + layer.forward_transient);
  input_ = layer.output;
  const Bytes before = tapes_, taping = taping_, backward = backward_;  // of the layers before
  tapes_ += layer.tape;
  taping_ = std::max(taping_, tapes_ + layer.tape_transient);
  backward_ = std::max(backward_, tapes_ + layer.output + layer.backward_transient);
  if (j == last_) return std::max(taping_, backward_);
  // Its tape is recomputed without its output.
  const chain::Retape again = layer.again();
  const Bytes tapes = before + again.tape;
  return std::max({run_, layer.output + std::max(taping, tapes + again.tape_transient), backward,
                   layer.output + tapes + again.backward_transient});
}

BoundedSegments::BoundedSegments(const chain::Chain& chain, int first, int last)
    : chain_(chain), first_(first), last_(last) {
  sums_.resize(at(last) + 1);
  for (int i = first; i <= last; ++i) sums_[at(i)] = sums_[at(i - 1)] + chain.layer(i).tape;
  kept_.resize(sums_.size());
  next_.resize(sums_.size(), last);
}

// The ends j that a segment after x[i] may have form a window that moves left with i; the least of
// kept_ in it is at the front of a queue of rising values.
Bytes BoundedSegments::solve(Bytes bound) {
  std::deque<int> window{last_};
  kept_[at(last_)] = Bytes(0);
  for (int i = last_ - 1; i >= first_ - 1; --i) {
    while (!window.empty() && sums_[at(window.front())] - sums_[at(i)] > bound) window.pop_front();
    if (window.empty()) return kUnbounded;
    next_[at(i)] = window.front();
    kept_[at(i)] = chain_.output(i) + kept_[at(window.front())];
    while (!window.empty() && kept_[at(window.back())] >= kept_[at(i)]) window.pop_back();
    window.push_back(i);
  }
  return kept_[0];
}

std::vector<int> BoundedSegments::starts() const {
  return follow(next_, first_, last_);
}

std::vector<int> follow(const std::vector<int>& ends, int first, int last) {
  std::vector<int> starts;
  for (int i = first - 1; i < last; i = ends[static_cast<std::size_t>(i - first + 1)]) {
    starts.push_back(i + 1);
  }
  return starts;
}

}  // namespace
}  // namespace trireme::solve
