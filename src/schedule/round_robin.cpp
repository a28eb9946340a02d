// Schedules of chunks that go round the ranks.
//
// Micro-batches go in groups, and a group goes through one chunk of a rank after the other. Groups
// have as many micro-batches as there are ranks: while the last rank has the last of them in one
// chunk, the first are back at rank 0 for the next. With fewer, rank 0 would wait for them, and
// between backwards that wait for it all ranks would in a circle. With more, outputs wait for rank
// 0: one more is well, two find the stream to rank 0 full. A single group has any size: no
// backwards run before it that could wait.
// SPDX-License-Identifier: Apache-2.0
#include "makers.h"

#include <algorithm>
#include <cstddef>

namespace trireme::schedule {
namespace {

/// Micro-batches in each group, the largest groups first: any other order of groups would run a
/// backward before its forward. Perhaps more than `micro_batches` in all, for the last group.
std::vector<int> groups_of(int ranks, int micro_batches);
/// Which of its chunks a rank runs in each of its forwards.
std::vector<int> turns_of(const std::vector<int>& groups, int per_rank);

}  // namespace

Order interleaved(int ranks, int per_rank, int micro_batches) {
  const std::vector<int> groups = groups_of(ranks, micro_batches);
  const std::vector<int> turns = turns_of(groups, per_rank);
  Order order;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<Pass> passes;
    const int ahead = 2 * (ranks - 1 - rank) + (per_rank - 1) * groups.front();
    const std::size_t warm_up = std::min(static_cast<std::size_t>(ahead), turns.size());
    const auto forward = [&](std::size_t i) {
      passes.push_back({.kind = Pass::Kind::kForward, .chunk = turns[i] * ranks + rank});
    };
    for (std::size_t i = 0; i < warm_up; ++i) forward(i);
    for (std::size_t i = 0; i < turns.size(); ++i) {
      if (warm_up + i < turns.size()) forward(warm_up + i);
      passes.push_back(
          {.kind = Pass::Kind::kBackward, .chunk = (per_rank - 1 - turns[i]) * ranks + rank});
    }
    order.push_back(without_surplus(passes, micro_batches));
  }
  return order;
}

Order looped_bfs(int ranks, int per_rank, int micro_batches) {
  Order order(static_cast<std::size_t>(ranks));
  const auto add = [&](Pass::Kind kind, int chunk) {
    std::vector<Pass>& passes = order[static_cast<std::size_t>(chunk % ranks)];
    passes.insert(passes.end(), static_cast<std::size_t>(micro_batches),
                  {.kind = kind, .chunk = chunk});
  };
  const int chunks = ranks * per_rank;
  for (int chunk = 0; chunk < chunks; ++chunk) add(Pass::Kind::kForward, chunk);
  for (int chunk = chunks - 1; chunk >= 0; --chunk) add(Pass::Kind::kBackward, chunk);
  return order;
}

namespace {

std::vector<int> groups_of(int ranks, int micro_batches) {
  const int groups = std::max(1, micro_batches / ranks);
  const int largest = (micro_batches + groups - 1) / groups;
  std::vector<int> sizes(static_cast<std::size_t>(groups), micro_batches / groups);
  if (groups > 1 && largest > ranks + 1) {
    sizes.assign(sizes.size() + 1, ranks);
    return sizes;
  }
  for (int i = 0; i < micro_batches % groups; ++i) ++sizes[static_cast<std::size_t>(i)];
  return sizes;
}

std::vector<int> turns_of(const std::vector<int>& groups, int per_rank) {
  std::vector<int> turns;
  for (const int size : groups)
    for (int turn = 0; turn < per_rank; ++turn)
      turns.insert(turns.end(), static_cast<std::size_t>(size), turn);
  return turns;
}

}  // namespace
}  // namespace trireme::schedule
