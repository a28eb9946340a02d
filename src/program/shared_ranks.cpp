// SPDX-License-Identifier: Apache-2.0
#include "shared_ranks.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <set>
#include <utility>

namespace trireme::program {
namespace {

/// One list per stage, in the stage's own order.
std::vector<PassList> lists_of(const PassOrder& order, const std::vector<int>& rank_of_stage);

/// The passes of a rank's stages in the order of its turns.
std::vector<StagePass> merged(const std::vector<PassList>& lists, int rank,
                              const std::vector<int>& turns);

}  // namespace

int rank_of(const Lowering& lowering, std::size_t stage) {
  return lowering.rank_of_stage.empty() ? static_cast<int>(stage) : lowering.rank_of_stage[stage];
}

bool shares_ranks(const Lowering& lowering) {
  const std::set<int> ranks(lowering.rank_of_stage.begin(), lowering.rank_of_stage.end());
  return ranks.size() < lowering.rank_of_stage.size();
}

std::vector<std::vector<StagePass>> passes_by_rank(const Lowering& lowering, int ranks) {
  std::vector<int> rank_of_stage;
  for (std::size_t k = 0; k < lowering.order.size(); ++k)
    rank_of_stage.push_back(rank_of(lowering, k));
  const std::vector<PassList> lists = lists_of(lowering.order, rank_of_stage);
  if (lowering.turns.size() > static_cast<std::size_t>(ranks))
    throw InputError(
        concat("turns for ", lowering.turns.size(), " ranks, must be for at most ", ranks));
  std::vector<std::vector<StagePass>> by_rank(static_cast<std::size_t>(ranks));
  if (shares_ranks(lowering) && lowering.turns.empty()) {
    const Placed placed = place(lists, ranks);
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
      for (const PlacedPass& pass : placed.ranks[rank]) by_rank[rank].push_back(pass.pass);
    }
    return by_rank;
  }
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    const bool given = rank < lowering.turns.size() && !lowering.turns[rank].empty();
    by_rank[rank] =
        merged(lists, static_cast<int>(rank), given ? lowering.turns[rank] : std::vector<int>());
  }
  return by_rank;
}

TimedTurns take_turns(const PassOrder& order, const std::vector<int>& rank_of_stage,
                      const StageTimes& times) {
  const int ranks = 1 + *std::max_element(rank_of_stage.begin(), rank_of_stage.end());
  std::vector<int> stages_on(static_cast<std::size_t>(ranks), 0);
  for (const int rank : rank_of_stage) ++stages_on[static_cast<std::size_t>(rank)];
  const Placed placed = place(lists_of(order, rank_of_stage), ranks, &times);
  TimedTurns timed{.turns = {}, .end = placed.end};
  if (static_cast<std::size_t>(ranks) == rank_of_stage.size()) return timed;
  timed.turns.resize(static_cast<std::size_t>(ranks));
  for (std::size_t rank = 0; rank < timed.turns.size(); ++rank) {
    if (stages_on[rank] < 2) continue;
    for (const PlacedPass& pass : placed.ranks[rank]) timed.turns[rank].push_back(pass.pass.stage);
  }
  return timed;
}

namespace {

std::vector<PassList> lists_of(const PassOrder& order, const std::vector<int>& rank_of_stage) {
  std::vector<PassList> lists;
  for (std::size_t k = 0; k < order.size(); ++k) {
    PassList list{rank_of_stage[k], {}};
    for (const Pass& pass : order[k]) list.passes.push_back({pass, static_cast<int>(k)});
    lists.push_back(std::move(list));
  }
  return lists;
}

std::vector<StagePass> merged(const std::vector<PassList>& lists, int rank,
                              const std::vector<int>& turns) {
  std::vector<StagePass> passes;
  std::vector<std::size_t> next(lists.size(), 0);
  for (const int stage : turns) {
    const auto place = static_cast<std::size_t>(stage);
    if (stage < 0 || place >= lists.size() || lists[place].rank != rank)
      throw InputError(concat("turn ", passes.size(), " of rank ", rank, " is of stage ", stage,
                              ", which is not on this rank"));
    if (next[place] == lists[place].passes.size())
      throw InputError(concat("rank ", rank, " has more turns of stage ", stage, " than its ",
                              next[place], " passes"));
    passes.push_back(lists[place].passes[next[place]++]);
  }
  int without_turns = 0;
  for (std::size_t k = 0; k < lists.size(); ++k) {
    if (lists[k].rank != rank || next[k] == lists[k].passes.size()) continue;
    if (!turns.empty() || ++without_turns > 1)
      throw InputError(concat("rank ", rank, " has turns for ", next[k], " of the ",
                              lists[k].passes.size(), " passes of stage ", k));
    passes = lists[k].passes;
  }
  return passes;
}

}  // namespace
}  // namespace trireme::program
