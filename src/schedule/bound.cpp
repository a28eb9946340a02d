// Lower bounds on the step of any order: ways to and from a rank's first and last passes, memory
// times time, and what can be done before gradients come and after the last outputs.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/core/error.h"
#include "trireme/schedule/search.h"

#include <algorithm>
#include <limits>

namespace trireme::schedule {
namespace {

/// Least times along the chain of one micro-batch, by chunk.
struct Ways {
  std::vector<Seconds> forward;   ///< begin of the step to the begin of its first forward
  std::vector<Seconds> backward;  ///< begin of the step to the begin of its first backward
  std::vector<Seconds> turn;      ///< begin of a forward to the begin of its backward
  std::vector<Seconds> home;      ///< begin of a backward to the end of all that waits for it
};

/// Some of a number of like things, each of which takes room and is worth time.
struct Item {
  Bytes size;
  Seconds worth;
  int most = 0;
};

/// What a rank has to do and to hold.
struct RankBound {
  const Workload& workload;
  const Ways& ways;
  Bytes room;
  std::vector<std::size_t> chunks;  ///< in chain order

  const ChunkCosts& costs(std::size_t chunk) const { return workload.chunks[chunk]; }
  bool holds_one() const;
  Seconds of_work() const;
  Seconds of_memory() const;

 private:
  Seconds work() const;
  /// Time that the rank idles at least after its last pass.
  Seconds after() const;
  /// Largest times of forwards before its first backward, and of passes after its last forward or
  /// its last backward, that memory allows.
  Seconds most_forwards() const;
  Seconds most_after_forward() const;
  Seconds most_after_backward() const;
};

Ways ways_of(const Workload& workload);
/// Largest worth of items that fit into `room` together.
Seconds most_worth(std::vector<Item> items, Bytes room);

constexpr Seconds kInfinite(std::numeric_limits<double>::infinity());

}  // namespace

Seconds bound(const Workload& workload) {
  const Ways ways = ways_of(workload);
  Seconds most = ways.turn[0] + ways.home[0];
  for (int rank = 0; rank < ranks_of(workload.placement); ++rank) {
    RankBound one{.workload = workload,
                  .ways = ways,
                  .room = Bytes(std::numeric_limits<std::int64_t>::max()),
                  .chunks = {}};
    if (!workload.room.empty()) one.room = workload.room.at(static_cast<std::size_t>(rank));
    for (std::size_t chunk = 0; chunk < workload.placement.size(); ++chunk)
      if (workload.placement[chunk] == rank) one.chunks.push_back(chunk);
    if (!one.holds_one()) return kInfinite;
    most = std::max({most, one.of_work(), one.of_memory()});
  }
  return most;
}

namespace {

Ways ways_of(const Workload& workload) {
  const std::vector<ChunkCosts>& chunks = workload.chunks;
  const std::size_t count = workload.placement.size();
  ensure(count > 0 && chunks.size() == count && workload.messages.size() + 1 >= count,
         "costs of every chunk and times of every message");
  Ways ways;
  ways.forward.resize(count);
  ways.backward.resize(count);
  ways.turn.resize(count);
  ways.home.resize(count);
  for (std::size_t c = 0; c < count; ++c) {
    if (c > 0)
      ways.forward[c] = ways.forward[c - 1] + chunks[c - 1].forward + workload.messages[c - 1];
    const Seconds own = chunks[c].backward + chunks[c].weights;
    ways.home[c] = own;
    if (c > 0)
      ways.home[c] = std::max(own, chunks[c].backward + workload.messages[c - 1] -
                                       chunks[c - 1].ahead + ways.home[c - 1]);
  }
  for (std::size_t c = count; c-- > 0;) {
    ways.turn[c] = chunks[c].forward;
    if (c + 1 < count)
      ways.turn[c] =
          std::max(ways.turn[c], chunks[c].forward + 2 * workload.messages[c] + ways.turn[c + 1] +
                                     chunks[c + 1].backward - chunks[c].ahead);
    ways.backward[c] = ways.forward[c] + ways.turn[c];
  }
  return ways;
}

bool RankBound::holds_one() const {
  Bytes held;
  for (const std::size_t c : chunks) {
    held += costs(c).kept;
    if (held + std::max(costs(c).forward_more, costs(c).backward_more) > room) return false;
  }
  return true;
}

Seconds RankBound::work() const {
  Seconds sum{};
  for (const std::size_t c : chunks) sum += costs(c).forward + costs(c).backward + costs(c).weights;
  return sum * workload.micro_batches;
}

Seconds RankBound::after() const {
  Seconds least = kInfinite;
  for (const std::size_t c : chunks)
    least = std::min(least, costs(c).is_split() ? Seconds(0) : ways.home[c] - costs(c).backward);
  return least;
}

/// Nothing but forwards runs before the first backward of the rank, which is of its last chunk, and
/// no more of them than fit. After its last forward, which is of its last chunk, too, it runs
/// backwards and W's of what it then holds; after its last backward, of its first chunk, W's
/// alone. It waits for the rest of the ways there and home.
Seconds RankBound::of_work() const {
  const std::size_t first = chunks.front();
  const std::size_t last = chunks.back();
  const Seconds before = std::max(ways.forward[first], ways.backward[last] - most_forwards());
  const Seconds after_backward =
      std::max(after(), ways.home[first] - costs(first).backward - most_after_backward());
  const Seconds home = ways.turn[last] - costs(last).forward + ways.home[last];
  const Seconds rest = std::max(after_backward, home - most_after_forward());
  const Seconds alternating = before + work() + rest;
  // All forwards may run before the first backward where they fit: the two waits are then the same.
  Bytes all;
  Seconds forwards{};
  for (const std::size_t c : chunks) {
    all += costs(c).kept * workload.micro_batches;
    forwards += costs(c).forward * workload.micro_batches;
  }
  if (all > room) return alternating;
  const Seconds one_after_the_other =
      std::max(ways.forward[first] + forwards, ways.backward[last]) + work() - forwards +
      after_backward;
  return std::min(alternating, one_after_the_other);
}

Seconds RankBound::most_forwards() const {
  std::vector<Item> items;
  Bytes more = room;
  for (const std::size_t c : chunks) {
    items.push_back({costs(c).kept, costs(c).forward, workload.micro_batches});
    more = std::min(more, costs(c).forward_more);
  }
  return most_worth(items, room - std::max(more, costs(chunks.back()).backward_more));
}

Seconds RankBound::most_after_forward() const {
  std::vector<Item> items;
  for (const std::size_t c : chunks) {
    const ChunkCosts& chunk = costs(c);
    items.push_back({chunk.kept, chunk.backward + chunk.weights, workload.micro_batches});
    items.push_back({chunk.pending, chunk.weights, workload.micro_batches});
  }
  return most_worth(items, room - costs(chunks.back()).forward_more);
}

Seconds RankBound::most_after_backward() const {
  std::vector<Item> items;
  for (const std::size_t c : chunks)
    items.push_back({costs(c).pending, costs(c).weights, workload.micro_batches});
  const ChunkCosts& first = costs(chunks.front());
  return most_worth(items, room - first.backward_more - first.kept + first.pending);
}

/// Every micro-batch holds its bytes for as long as its way to the last chunk and back takes.
Seconds RankBound::of_memory() const {
  double held = 0;  // bytes times seconds
  const auto hold = [&](Bytes size, Seconds time) {
    held += static_cast<double>(size.count()) * time.count();
  };
  for (const std::size_t c : chunks) {
    const ChunkCosts& chunk = costs(c);
    hold(chunk.kept, ways.turn[c] + chunk.backward);
    hold(chunk.pending, chunk.weights);
    hold(chunk.forward_more, chunk.forward);
    hold(chunk.backward_more, chunk.backward);
  }
  if (held <= 0) return Seconds(0);
  return ways.forward[chunks.front()] +
         Seconds(held / static_cast<double>(room.count())) * workload.micro_batches + after();
}

/// Worth of as much as fits, the last thing in part, of items from `first` on: they are in the
/// order of worth per byte, so no choice is worth more.
Seconds in_parts(const std::vector<Item>& items, std::size_t first, Bytes room) {
  Seconds worth{};
  for (std::size_t i = first; i < items.size(); ++i) {
    const Item& item = items[i];
    if (item.size * item.most > room)
      return worth + item.worth * (static_cast<double>(room.count()) /
                                   static_cast<double>(item.size.count()));
    worth += item.worth * item.most;
    room -= item.size * item.most;
  }
  return worth;
}

/// Knapsack by branch and bound (Kolesar 1967), cut short to what fits in parts after some nodes.
class Knapsack {
 public:
  explicit Knapsack(const std::vector<Item>& items) : items_(items) {}

  /// Raises `best` to the largest worth of items from `first` on beside `worth`.
  void fill(std::size_t first, Bytes room, Seconds worth, Seconds& best) {
    best = std::max(best, worth);
    const Seconds hope = worth + in_parts(items_, first, room);
    if (first == items_.size() || hope <= best * (1 + 1e-12)) return;
    if (++nodes_ > kNodes) {
      best = hope;
      return;
    }
    const Item& item = items_[first];
    auto count = static_cast<std::int64_t>(item.most);
    if (item.size > Bytes(0)) count = std::min(count, room.count() / item.size.count());
    for (; count >= 0; --count)
      fill(first + 1, room - item.size * count, worth + item.worth * static_cast<double>(count),
           best);
  }

 private:
  static constexpr int kNodes = 2000;

  const std::vector<Item>& items_;
  int nodes_ = 0;
};

Seconds most_worth(std::vector<Item> items, Bytes room) {
  if (room < Bytes(0)) return Seconds(0);
  std::erase_if(items, [](const Item& item) { return item.worth <= Seconds(0); });
  const auto per_byte = [](const Item& a, const Item& b) {
    return a.worth.count() * static_cast<double>(b.size.count()) >
           b.worth.count() * static_cast<double>(a.size.count());
  };
  std::stable_sort(items.begin(), items.end(), per_byte);
  Seconds best{};
  Knapsack(items).fill(0, room, Seconds(0), best);
  return best * (1 + 1e-12);
}

}  // namespace
}  // namespace trireme::schedule
