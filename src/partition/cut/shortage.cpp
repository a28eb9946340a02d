// SPDX-License-Identifier: Apache-2.0
#include "shortage.h"

#include "judge/judge.h"
#include "memory/rank.h"

#include "trireme/core/text.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace trireme::partition {
namespace {

/// The least share of a budget that is more than all of it.
const double kTooMuch = std::nextafter(1.0, 2.0);

std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

/// What stages need at least.
class Needs {
 public:
  Needs(const StageRoom& room, StagePolicy& policy) : room_(room), policy_(policy) {}

  Bytes budget(int stage) const { return room_.question().platform.ranks[at(stage)].memory; }
  Bytes bytes(int stage, int first, int last) const {
    return fixed(stage, first, last) + policy_.least_memory(first, last, in_flight(stage));
  }
  /// Share of the stage's budget, 0 where there is none. Where it is not below `enough`, some
  /// number that is not either.
  double share(int stage, int first, int last, double enough = kNever) const;
  bool fits(int stage, int first, int last) const {
    return share(stage, first, last, kTooMuch) < kTooMuch;
  }
  /// Bytes that a stage holds whatever its program keeps.
  Bytes fixed(int stage, int first, int last) const {
    return room_.fixed(stage, first, last) + room_.waiting(last);
  }

 private:
  int in_flight(int stage) const { return partition::in_flight(room_.question(), stage); }

  const StageRoom& room_;
  StagePolicy& policy_;
};

/// The cut with the least of the largest shares, if that is below `enough`.
std::optional<Cut> thriftiest(const StageRoom& room, StagePolicy& policy, double enough);

/// [k][l]: whether stages 0..k-1 fit layers 1..l, or stages k.. layers l.. . Then rank k may be as
/// large as its stage between the two asks for.
using Reach = std::vector<std::vector<bool>>;
Reach fitting_prefixes(const StageRoom& room, const Needs& needs);
Reach fitting_suffixes(const StageRoom& room, const Needs& needs);

}  // namespace

Shortage shortage(const StageRoom& room, StagePolicy& policy, const std::optional<Cut>& fixed) {
  const Needs needs(room, policy);
  Shortage result;
  result.cut = fixed ? *fixed : *thriftiest(room, policy, kNever);
  result.scale = -1;
  int first = 1;
  for (int k = 0; k < room.stages(); ++k) {
    const int last = result.cut[at(k)];
    const double share = needs.share(k, first, last);
    if (share > result.scale) {
      const Bytes bytes = needs.bytes(k, first, last);
      result.scale = share;
      result.infeasible = {.rank = k,
                           .first_layer = first,
                           .last_layer = last,
                           .needed = bytes,
                           .available = needs.budget(k),
                           .least_budget = bytes,
                           .where = ""};
    }
    first = last + 1;
  }
  plan::Infeasible& lacks = result.infeasible;
  const Bytes still = room.fixed(lacks.rank, lacks.first_layer, lacks.last_layer);
  lacks.where = concat("of them ", to_text(still),
                       " of parameters, gradients, optimizer and channel buffers; ",
                       in_flight(room.question(), lacks.rank), " in flight");
  return result;
}

std::optional<Cut> fitting_cut(const StageRoom& room, StagePolicy& policy) {
  return thriftiest(room, policy, kTooMuch);
}

bool fits(const StageRoom& room, StagePolicy& policy) {
  const std::optional<Cut> fixed = fixed_cut(room.question());
  return fixed ? shortage(room, policy, fixed).scale < kTooMuch
               : fitting_cut(room, policy).has_value();
}

std::optional<OneRank> least_on_one_rank(const StageRoom& room, StagePolicy& policy) {
  const Needs needs(room, policy);
  const int stages = room.stages(), layers = room.layers();
  const Reach prefix = fitting_prefixes(room, needs), suffix = fitting_suffixes(room, needs);
  std::optional<OneRank> best;
  const auto offer = [&](int k, int first, int last) {
    const Bytes sure = needs.fixed(k, first, last) - needs.budget(k);
    if (best && sure >= best->more) return;
    const Bytes bytes = needs.bytes(k, first, last), more = bytes - needs.budget(k);
    const bool too_long = bytes >= kUnlimited;
    if (!too_long && (!best || more < best->more)) best = OneRank{k, more};
  };
  for (int k = 0; k < stages; ++k) {
    for (int first = k + 1; first <= layers; ++first) {
      if (!prefix[at(k)][at(first - 1)]) continue;
      for (int last = first; last <= layers; ++last)
        if (suffix[at(k + 1)][at(last + 1)]) offer(k, first, last);
    }
  }
  return best;
}

namespace {

// What one micro-batch in flight needs is asked first: few stages of all pass, and the answer
// serves every rank. Each other in flight keeps at least the stage's input.
double Needs::share(int stage, int first, int last, double enough) const {
  const Bytes whole = budget(stage);
  if (whole == Bytes(0)) return 0;
  const Bytes still = fixed(stage, first, last);
  const double sure = still / whole;
  if (sure >= enough) return sure;
  const int w = in_flight(stage);
  const Bytes alone = policy_.least_memory(first, last, 1);
  const double least = (still + alone + room_.question().chain.output(first - 1) * (w - 1)) / whole;
  if (w == 1 || least >= enough) return least;
  return (still + policy_.least_memory(first, last, w)) / whole;
}

std::optional<Cut> thriftiest(const StageRoom& room, StagePolicy& policy, double enough) {
  const Needs needs(room, policy);
  const int stages = room.stages(), layers = room.layers();
  std::vector value(at(stages + 1), std::vector<double>(at(layers + 1), enough));
  std::vector begin(at(stages), std::vector<int>(at(layers + 1), 1));
  value[0][0] = 0;
  for (int k = 0; k < stages; ++k) {
    const int least_last = k + 1 == stages ? layers : k + 1, most_last = layers - (stages - 1 - k);
    for (int last = least_last; last <= most_last; ++last) {
      double& least = value[at(k + 1)][at(last)];
      for (int first = last; first > k; --first) {
        const double before = value[at(k)][at(first - 1)];
        if (before >= least) continue;
        const double all = std::max(before, needs.share(k, first, last, least));
        if (all >= least) continue;
        least = all;
        begin[at(k)][at(last)] = first;
      }
    }
  }
  if (value[at(stages)][at(layers)] >= enough) return std::nullopt;
  Cut cut(at(stages));
  for (int k = stages - 1, last = layers; k >= 0; --k) {
    cut[at(k)] = last;
    last = begin[at(k)][at(last)] - 1;
  }
  return cut;
}

Reach fitting_prefixes(const StageRoom& room, const Needs& needs) {
  const int stages = room.stages(), layers = room.layers();
  Reach reach(at(stages + 1), std::vector<bool>(at(layers + 1), false));
  reach[0][0] = true;
  for (int k = 0; k < stages; ++k) {
    for (int last = k + 1; last <= layers; ++last) {
      for (int first = last; first > k && !reach[at(k + 1)][at(last)]; --first)
        reach[at(k + 1)][at(last)] = reach[at(k)][at(first - 1)] && needs.fits(k, first, last);
    }
  }
  return reach;
}

Reach fitting_suffixes(const StageRoom& room, const Needs& needs) {
  const int stages = room.stages(), layers = room.layers();
  Reach reach(at(stages + 1), std::vector<bool>(at(layers + 2), false));
  reach[at(stages)][at(layers + 1)] = true;
  for (int k = stages - 1; k >= 0; --k) {
    for (int first = layers; first > k; --first) {
      for (int last = first; last <= layers && !reach[at(k)][at(first)]; ++last)
        reach[at(k)][at(first)] = reach[at(k + 1)][at(last + 1)] && needs.fits(k, first, last);
    }
  }
  return reach;
}

}  // namespace
}  // namespace trireme::partition
