// SPDX-License-Identifier: Apache-2.0
#include "shortage.h"

#include "judge.h"

#include "trireme/core/text.h"

#include <algorithm>

namespace trireme::partition {
namespace {

std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

Bytes budget(const StageRoom& room, int stage) {
  return room.question().platform.ranks[at(stage)].memory;
}

Bytes needed(const StageRoom& room, StagePolicy& policy, int stage, int first, int last) {
  const StageQuestion asked = room.asked(stage, first, last);
  return room.fixed(first, last) + room.waiting(last) +
         policy.least_memory(first, last, asked.in_flight);
}

/// Share of the stage's budget; 0 where there is none.
double share(const StageRoom& room, int stage, Bytes bytes) {
  return budget(room, stage) == Bytes(0) ? 0 : bytes / budget(room, stage);
}

Cut thriftiest(const StageRoom& room, StagePolicy& policy);

}  // namespace

Shortage shortage(const StageRoom& room, StagePolicy& policy, const std::optional<Cut>& fixed) {
  Shortage result;
  result.cut = fixed ? *fixed : thriftiest(room, policy);
  result.scale = -1;
  int first = 1;
  for (int k = 0; k < room.stages(); ++k) {
    const int last = result.cut[at(k)];
    const Bytes bytes = needed(room, policy, k, first, last);
    if (share(room, k, bytes) > result.scale) {
      result.scale = share(room, k, bytes);
      result.infeasible = {.rank = k,
                           .first_layer = first,
                           .last_layer = last,
                           .needed = bytes,
                           .available = budget(room, k),
                           .least_budget = bytes,
                           .where = ""};
    }
    first = last + 1;
  }
  plan::Infeasible& lacks = result.infeasible;
  const Bytes still = room.fixed(lacks.first_layer, lacks.last_layer);
  lacks.where = concat("of them ", to_text(still),
                       " of parameters, gradients, optimizer and channel buffers; ",
                       in_flight(room.question(), lacks.rank), " in flight");
  return result;
}

// prefix[k][l]: whether stages 0..k fit layers 1..l; suffix likewise from the other end. Then rank
// k may be as large as its stage between the two asks for.
std::optional<OneRank> least_on_one_rank(const StageRoom& room, StagePolicy& policy) {
  const int stages = room.stages(), layers = room.layers();
  const auto fits = [&](int k, int first, int last) {
    return share(room, k, room.fixed(first, last)) <= 1 &&
           share(room, k, needed(room, policy, k, first, last)) <= 1;
  };
  std::vector prefix(at(stages + 1), std::vector<bool>(at(layers + 1), false));
  std::vector suffix(at(stages + 1), std::vector<bool>(at(layers + 2), false));
  prefix[0][0] = suffix[at(stages)][at(layers + 1)] = true;
  for (int k = 0; k < stages; ++k) {
    for (int last = k + 1; last <= layers; ++last) {
      for (int first = last; first > k && !prefix[at(k + 1)][at(last)]; --first)
        if (prefix[at(k)][at(first - 1)] && fits(k, first, last))
          prefix[at(k + 1)][at(last)] = true;
    }
  }
  for (int k = stages - 1; k >= 0; --k) {
    for (int first = layers; first > k; --first) {
      for (int last = first; last <= layers && !suffix[at(k)][at(first)]; ++last)
        if (suffix[at(k + 1)][at(last + 1)] && fits(k, first, last))
          suffix[at(k)][at(first)] = true;
    }
  }
  std::optional<OneRank> best;
  for (int k = 0; k < stages; ++k) {
    for (int first = k + 1; first <= layers; ++first) {
      if (!prefix[at(k)][at(first - 1)]) continue;
      for (int last = first; last <= layers; ++last) {
        if (!suffix[at(k + 1)][at(last + 1)]) continue;
        const Bytes sure = room.fixed(first, last) - budget(room, k);
        if (best && sure >= best->more) continue;
        const Bytes more = needed(room, policy, k, first, last) - budget(room, k);
        if (!best || more < best->more) best = OneRank{k, more};
      }
    }
  }
  return best;
}

namespace {

Cut thriftiest(const StageRoom& room, StagePolicy& policy) {
  const int stages = room.stages(), layers = room.layers();
  std::vector value(at(stages), std::vector<double>(at(layers + 1), kNever));
  std::vector begin(at(stages), std::vector<int>(at(layers + 1), 1));
  for (int k = 0; k < stages; ++k) {
    for (int last = k + 1; last <= layers - (stages - 1 - k); ++last) {
      double& least = value[at(k)][at(last)];
      const int most_first = k == 0 ? 1 : last, least_first = k == 0 ? 1 : k + 1;
      for (int first = most_first; first >= least_first; --first) {
        const double before = k == 0 ? 0 : value[at(k - 1)][at(first - 1)];
        if (std::max(before, share(room, k, room.fixed(first, last))) >= least) continue;
        const double all = std::max(before, share(room, k, needed(room, policy, k, first, last)));
        if (all >= least) continue;
        least = all;
        begin[at(k)][at(last)] = first;
      }
    }
  }
  Cut cut(at(stages));
  for (int k = stages - 1, last = layers; k >= 0; --k) {
    cut[at(k)] = last;
    last = begin[at(k)][at(last)] - 1;
  }
  return cut;
}

}  // namespace
}  // namespace trireme::partition
