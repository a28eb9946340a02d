// Named schedules where a stream of messages between two ranks holds two, as those of the executor.
// SPDX-License-Identifier: Apache-2.0
#include "schedule/evaluate.h"

#include "trireme/schedule/named.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace trireme::schedule {
namespace {

/// Runs passes as soon as they may. A pass takes its message when it begins; its rank goes on once
/// what it sends has found room.
class Streams {
 public:
  Streams(const Order& order, const Placement& placement, int room)
      : order_(order), placement_(placement), room_(room), next_(order.size()) {}

  bool run_to_the_end() {
    for (const std::vector<Pass>& passes : order_) numbers_.push_back(micro_batches_of(passes));
    std::size_t left = 0;
    for (const std::vector<Pass>& passes : order_) left += passes.size();
    for (bool moves = true; moves;) {
      moves = false;
      for (std::size_t rank = 0; rank < order_.size(); ++rank)
        for (; may_run(rank); --left, moves = true) run(rank);
    }
    return left == 0;
  }

 private:
  using Message = std::tuple<bool, int, int>;  // backward, chunk that takes it, micro-batch
  using Stream = std::tuple<int, int, bool>;   // from, to, backward

  /// The message that a pass takes.
  Message message(Pass pass, int micro_batch) const {
    return {is_backward(pass.kind), pass.chunk, micro_batch};
  }
  bool crosses(int from, int to) const {
    return placement_[static_cast<std::size_t>(from)] != placement_[static_cast<std::size_t>(to)];
  }
  /// The chunk that sends to this pass, or -1.
  int before(Pass pass) const {
    if (pass.kind == Pass::Kind::kForward) return pass.chunk - 1;
    const bool is_last = std::cmp_equal(pass.chunk + 1, placement_.size());
    return is_backward(pass.kind) && !is_last ? pass.chunk + 1 : -1;
  }

  bool may_run(std::size_t rank) const {
    for (const auto& [stream, waiting] : waiting_)
      if (std::cmp_equal(std::get<0>(stream), rank) && waiting > room_) return false;
    if (next_[rank] == order_[rank].size()) return false;
    const Pass pass = order_[rank][next_[rank]];
    return before(pass) < 0 || sent_.contains(message(pass, numbers_[rank][next_[rank]]));
  }

  void run(std::size_t rank) {
    const Pass pass = order_[rank][next_[rank]];
    const int micro_batch = numbers_[rank][next_[rank]++];
    const bool back = is_backward(pass.kind);
    if (const int from = before(pass); from >= 0 && crosses(from, pass.chunk))
      --waiting_[{placement_[static_cast<std::size_t>(from)], static_cast<int>(rank), back}];
    if (pass.kind == Pass::Kind::kBackwardWeights) return;
    const int to = back ? pass.chunk - 1 : pass.chunk + 1;
    if (to < 0 || std::cmp_equal(to, placement_.size())) return;
    sent_.insert({back, to, micro_batch});
    if (crosses(pass.chunk, to))
      ++waiting_[{static_cast<int>(rank), placement_[static_cast<std::size_t>(to)], back}];
  }

  const Order& order_;
  const Placement& placement_;
  int room_;
  std::vector<std::vector<int>> numbers_;
  std::vector<std::size_t> next_;
  std::set<Message> sent_;
  std::map<Stream, int> waiting_;  // messages
};

bool runs(const NamedSchedule& schedule, Shape shape) {
  const Order order = order_of(schedule, shape.ranks, shape.per_rank, shape.micro_batches);
  const Placement placement = placement_of(schedule, shape.ranks, shape.per_rank);
  return Streams(order, placement, 2).run_to_the_end();
}

TEST(NamedSchedules, RunWithStreamsThatHoldTwoMessages) {
  for (const NamedSchedule& schedule : named_schedules()) {
    if (schedule.name == "looped-bfs") continue;
    for (const Shape shape : shapes_of(schedule, 6, 20))
      EXPECT_TRUE(runs(schedule, shape)) << schedule.name << ": " << to_text(shape);
  }
}

// All micro-batches go round before rank 0 turns to its next chunk: two lie in each of the p
// streams and one is in the hands of each other rank. Another one has no place.
TEST(NamedSchedules, LoopedBfsNeedsRoomForAllMicroBatches) {
  const NamedSchedule& looped = *find_schedule("looped-bfs");
  for (int p = 2; p <= 8; ++p) {
    EXPECT_TRUE(runs(looped, {p, 2, 3 * p - 1})) << p;
    EXPECT_FALSE(runs(looped, {p, 2, 3 * p})) << p;
  }
}

}  // namespace
}  // namespace trireme::schedule
