// SPDX-License-Identifier: Apache-2.0
#include "shortage.h"

#include "in_flight.h"
#include "least_cut.h"
#include "memory/rank.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace trireme::partition {
namespace {

/// Smallest share above 1: over budget.
const double kTooMuch = std::nextafter(1.0, 2.0);
constexpr double kAnyShare = std::numeric_limits<double>::infinity();

/// Least memory of stages.
class Needs {
 public:
  Needs(const StageRoom& room, StagePolicy& policy) : room_(room), policy_(policy) {}

  Bytes budget(int stage) const { return room_.question().platform.ranks[at(stage)].memory; }
  /// Bytes that a stage holds with any program.
  Bytes fixed(int stage, chain::LayerRange layers) const {
    return room_.fixed(stage, layers) + room_.waiting(layers.last);
  }
  Bytes bytes(int stage, chain::LayerRange layers) const {
    return fixed(stage, layers) + policy_.least_memory(layers, in_flight(stage));
  }
  /// Least memory as a share of the stage's budget, 0 without one; where it is not below `enough`,
  /// some number that is not either. The need of one micro-batch in flight is computed first: it
  /// serves every rank and rules out most stages. Each further one in flight keeps at least the
  /// stage's input.
  double share(int stage, chain::LayerRange layers, double enough = kAnyShare) const {
    const Bytes whole = budget(stage);
    if (whole == Bytes(0)) return 0;
    const Bytes still = fixed(stage, layers);
    const double sure = still / whole;
    if (sure >= enough) return sure;
    const int w = in_flight(stage);
    const Bytes alone = still + policy_.least_memory(layers, 1);
    const double least =
        (alone + room_.question().chain.output(layers.first - 1) * (w - 1)) / whole;
    if (w == 1 || least >= enough) return least;
    return (still + policy_.least_memory(layers, w)) / whole;
  }
  bool fits(int stage, chain::LayerRange layers) const {
    return share(stage, layers, kTooMuch) < kTooMuch;
  }
  /// The stage of the cut with the largest share.
  int scarcest(const Cut& cut) const {
    std::vector<double> shares;
    for (int k = 0; k < room_.stages(); ++k) shares.push_back(share(k, layers_of(cut, k)));
    return static_cast<int>(std::max_element(shares.begin(), shares.end()) - shares.begin());
  }
  /// The cut whose largest share is least, if that is below `enough`.
  std::optional<Cut> thriftiest(double enough) const {
    const auto largest = [&](int k, chain::LayerRange layers, double before,
                             double least) -> std::optional<double> {
      return std::max(before, share(k, layers, least));
    };
    return least_cut(all_ends(room_.layers(), room_.stages()), enough, largest);
  }

 private:
  int in_flight(int stage) const { return partition::in_flight(room_.question(), stage); }

  const StageRoom& room_;
  StagePolicy& policy_;
};

/// [k][l]: whether k stages can hold layers 1..l.
using Reach = std::vector<std::vector<bool>>;
template <class Fits>
Reach reach_of(int stages, int layers, Fits&& fits) {
  Reach reach(at(stages + 1), std::vector<bool>(at(layers + 1), false));
  reach[0][0] = true;
  for (int k = 0; k < stages; ++k) {
    for (int last = k + 1; last <= layers; ++last) {
      for (int first = last; first > k && !reach[at(k + 1)][at(last)]; --first)
        reach[at(k + 1)][at(last)] =
            reach[at(k)][at(first - 1)] && fits(k, chain::LayerRange{first, last});
    }
  }
  return reach;
}

/// The least extra bytes on a single rank with which some cut fits; empty if there is no such rank.
/// Its stage may be as large as the stages before and after it require.
struct OneRank {
  int rank = 0;
  Bytes more;
};
std::optional<OneRank> least_on_one_rank(const StageRoom& room, StagePolicy& policy) {
  const Needs needs(room, policy);
  const int stages = room.stages(), layers = room.layers();
  const Reach before =
      reach_of(stages, layers, [&](int k, chain::LayerRange run) { return needs.fits(k, run); });
  // Stages and layers counted from the end.
  const Reach after = reach_of(stages, layers, [&](int k, chain::LayerRange run) {
    return needs.fits(stages - 1 - k, {layers + 1 - run.last, layers + 1 - run.first});
  });
  std::optional<OneRank> best;
  const auto offer = [&](int k, chain::LayerRange run) {
    const Bytes sure = needs.fixed(k, run) - needs.budget(k);
    if (best && sure >= best->more) return;
    const Bytes bytes = needs.bytes(k, run), more = bytes - needs.budget(k);
    if (bytes < kUnlimited && (!best || more < best->more)) best = OneRank{k, more};
  };
  for (int k = 0; k < stages; ++k) {
    for (int first = k + 1; first <= layers; ++first) {
      if (!before[at(k)][at(first - 1)]) continue;
      for (int last = first; last <= layers; ++last)
        if (after[at(stages - 1 - k)][at(layers - last)]) offer(k, {first, last});
    }
  }
  return best;
}

/// Least number of stages that fits, by bisection (assuming that more stages need less); 0 if twice
/// as many do not fit.
int enough_stages(const StageRoom& room, StagePolicy& policy) {
  const Question& question = room.question();
  const auto enough_with = [&](int stages) {
    Question longer = question;
    longer.stages = stages;
    if (!longer.in_flight.empty()) longer.in_flight.resize(at(stages), longer.in_flight.back());
    std::vector<chain::RankSpec>& ranks = longer.platform.ranks;
    ranks.resize(at(stages), ranks.back());
    return fits(StageRoom(longer), policy);
  };
  int less = question.stages, enough = std::min(2 * question.stages, room.layers());
  if (enough == less || !enough_with(enough)) return 0;
  while (enough - less > 1) {
    const int middle = std::midpoint(less, enough);
    (enough_with(middle) ? enough : less) = middle;
  }
  return enough;
}

/// The smallest single changes that would help; none for a fixed cut.
std::vector<plan::Advice> advice(const StageRoom& room, StagePolicy& policy) {
  using enum plan::Advice::Kind;
  std::vector<plan::Advice> changes;
  if (room.question().cut) return changes;
  if (const auto one = least_on_one_rank(room, policy); one && one->more > Bytes(0))
    changes.push_back({kMemoryOfOneRank,
                       concat(to_text(one->more), " (", one->more.count(), " bytes) more on rank ",
                              one->rank, " alone"),
                       one->more});
  if (const int stages = enough_stages(room, policy))
    changes.push_back({kStages, concat(stages, " stages on ranks like the last")});
  return changes;
}

}  // namespace

plan::Infeasible shortage(const StageRoom& room, StagePolicy& policy,
                          const std::optional<Cut>& fixed) {
  const Needs needs(room, policy);
  const Cut cut = fixed ? *fixed : *needs.thriftiest(kAnyShare);
  const int rank = needs.scarcest(cut);
  const chain::LayerRange layers = layers_of(cut, rank);
  const Bytes bytes = needs.bytes(rank, layers);
  return {.rank = rank,
          .first_layer = layers.first,
          .last_layer = layers.last,
          .needed = bytes,
          .available = needs.budget(rank),
          .least_budget = bytes,
          .where = concat("of them ", to_text(room.fixed(rank, layers)),
                          " of parameters, gradients, optimizer and channel buffers; ",
                          in_flight(room.question(), rank), " in flight")};
}

bool fits(const StageRoom& room, StagePolicy& policy) {
  const std::optional<Cut> fixed = fixed_cut(room.question());
  if (!fixed) return fitting_cut(room, policy).has_value();
  const Needs needs(room, policy);
  const int rank = needs.scarcest(*fixed);
  return needs.share(rank, layers_of(*fixed, rank)) < kTooMuch;
}

std::optional<Cut> fitting_cut(const StageRoom& room, StagePolicy& policy) {
  return Needs(room, policy).thriftiest(kTooMuch);
}

plan::Infeasible lacking(const Question& question, StagePolicy& policy, const std::string& name) {
  const Question leanest = name == "joint" ? with_fewest_in_flight(question) : question;
  const StageRoom room(leanest);
  plan::Infeasible infeasible = shortage(room, policy, fixed_cut(question));
  if (infeasible.needed >= kUnlimited)
    throw InputError(concat("solver '", name, "': every cut has a stage with more layers than it ",
                            "takes; use more stages, or 'joint'"));
  infeasible.advice = advice(room, policy);
  return infeasible;
}

bool has_exact_least_budget(const Question& question) {
  const auto begin = question.platform.ranks.begin();
  const bool are_alike = std::all_of(begin, begin + question.stages, [&](const auto& rank) {
    return rank.memory == begin->memory && rank.offload_capacity() == Bytes(0);
  });
  return are_alike && question.solver != "madpipe" && question.group.value_or(1) == 1 &&
         (question.stages == 1 || question.chunks == "none");
}

}  // namespace trireme::partition
