// List scheduling of passes.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/schedule/slots.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace trireme::schedule {
namespace {

/// Whether another pass may wait for it.
bool is_awaited(Pass::Kind kind);

/// End times of all passes of (kind, chunk, micro-batch) that others wait for.
class Board {
 public:
  Board(const std::vector<PassList>& lists, const ChunkTimes* times);

  bool may_run(const NumberedPass& next, double now) const;
  double length(const NumberedPass& pass) const;
  /// Records the end; returns when the neighbour chunk may go on.
  double ends(const NumberedPass& pass, double end);

 private:
  static constexpr double kNever = -2;  // the lists have no such pass: nothing waits for it
  static constexpr double kNotYet = -1;

  std::size_t index(Pass::Kind kind, int chunk, int micro_batch) const;
  /// Whether the pass has ended and its message of `message` seconds arrived by `now`, or it is not
  /// part of the lists.
  bool is_after(Pass::Kind kind, int chunk, int micro_batch, double message, double now) const;
  /// Seconds of a message between `chunk` and the next.
  double message(int chunk) const;

  const ChunkTimes* times_;
  int chunks_ = 0, micro_batches_ = 0;
  std::vector<double> ends_;
};

struct Cursor {
  const PassList* list = nullptr;
  std::size_t next = 0;
};

/// The cursor of `cursors` whose pass may and should run next.
Cursor* choose(std::vector<Cursor>& cursors, const Board& board, double now);

[[noreturn]] void refuse_circle(const std::vector<std::vector<Cursor>>& cursors);

}  // namespace

Placed place(const std::vector<PassList>& lists, int ranks, const ChunkTimes* times) {
  Board board(lists, times);
  std::vector<std::vector<Cursor>> cursors(static_cast<std::size_t>(ranks));
  std::size_t left = 0;
  for (const PassList& list : lists) {
    cursors[static_cast<std::size_t>(list.rank)].push_back({&list, 0});
    left += list.passes.size();
  }
  Placed placed;
  placed.ranks.resize(static_cast<std::size_t>(ranks));
  std::vector<double> free(static_cast<std::size_t>(ranks), 0);
  std::set<double> events{0};  // when something may begin
  while (left > 0) {
    if (events.empty()) refuse_circle(cursors);
    const double now = *events.begin();
    events.erase(events.begin());
    for (std::size_t rank = 0; rank < cursors.size(); ++rank) {
      if (free[rank] > now) continue;
      Cursor* cursor = choose(cursors[rank], board, now);
      if (cursor == nullptr) continue;
      const NumberedPass& pass = cursor->list->passes[cursor->next++];
      free[rank] = now + board.length(pass);
      events.insert({free[rank], board.ends(pass, free[rank])});
      placed.ranks[rank].push_back({pass, now});
      placed.end = std::max(placed.end, free[rank]);
      --left;
    }
  }
  return placed;
}

Order on_ranks(const std::vector<std::vector<Pass>>& by_chunk, const Placement& placement) {
  if (shares_ranks(placement)) return placed_order(by_chunk, placement).order;
  Order order(static_cast<std::size_t>(ranks_of(placement)));
  for (std::size_t chunk = 0; chunk < by_chunk.size(); ++chunk)
    order[static_cast<std::size_t>(placement[chunk])] = by_chunk[chunk];
  return order;
}

PlacedOrder placed_order(const std::vector<std::vector<Pass>>& by_chunk, const Placement& placement,
                         const ChunkTimes* times) {
  std::vector<PassList> lists;
  for (std::size_t chunk = 0; chunk < by_chunk.size(); ++chunk) {
    PassList list{placement[chunk], {}};
    const std::vector<int> micro_batches = micro_batches_of(by_chunk[chunk]);
    for (std::size_t i = 0; i < micro_batches.size(); ++i)
      list.passes.push_back({by_chunk[chunk][i], micro_batches[i]});
    lists.push_back(std::move(list));
  }
  const Placed placed = place(lists, ranks_of(placement), times);
  PlacedOrder result{.order = Order(placed.ranks.size()), .end = placed.end};
  for (std::size_t rank = 0; rank < placed.ranks.size(); ++rank)
    for (const PlacedPass& pass : placed.ranks[rank]) result.order[rank].push_back(pass.pass.pass);
  return result;
}

namespace {

bool is_awaited(Pass::Kind kind) {
  return kind != Pass::Kind::kBackwardWeights;
}

Board::Board(const std::vector<PassList>& lists, const ChunkTimes* times) : times_(times) {
  for (const PassList& list : lists) {
    for (const NumberedPass& pass : list.passes) {
      chunks_ = std::max(chunks_, pass.pass.chunk + 1);
      micro_batches_ = std::max(micro_batches_, pass.micro_batch + 1);
    }
  }
  ends_.assign(2 * static_cast<std::size_t>(chunks_) * static_cast<std::size_t>(micro_batches_),
               kNever);
  for (const PassList& list : lists) {
    for (const NumberedPass& pass : list.passes)
      if (is_awaited(pass.pass.kind))
        ends_[index(pass.pass.kind, pass.pass.chunk, pass.micro_batch)] = kNotYet;
  }
}

bool Board::may_run(const NumberedPass& next, double now) const {
  const auto [kind, chunk] = next.pass;
  const int micro_batch = next.micro_batch;
  if (!is_awaited(kind)) return true;  // its list has it after its first part
  if (kind == Pass::Kind::kForward)
    return is_after(kind, chunk - 1, micro_batch, message(chunk - 1), now);
  return is_after(Pass::Kind::kForward, chunk, micro_batch, 0, now) &&
         is_after(kind, chunk + 1, micro_batch, message(chunk), now);
}

double Board::length(const NumberedPass& pass) const {
  if (times_ == nullptr) return 1;
  const auto& lengths = pass.pass.kind == Pass::Kind::kForward ? times_->forward : times_->backward;
  return lengths[static_cast<std::size_t>(pass.pass.chunk)];
}

double Board::ends(const NumberedPass& pass, double end) {
  if (!is_awaited(pass.pass.kind)) return end;
  ends_[index(pass.pass.kind, pass.pass.chunk, pass.micro_batch)] = end;
  return end +
         message(pass.pass.kind == Pass::Kind::kForward ? pass.pass.chunk : pass.pass.chunk - 1);
}

double Board::message(int chunk) const {
  if (times_ == nullptr || chunk < 0 || chunk + 1 >= chunks_) return 0;
  return times_->message[static_cast<std::size_t>(chunk)];
}

std::size_t Board::index(Pass::Kind kind, int chunk, int micro_batch) const {
  const auto row = 2 * static_cast<std::size_t>(chunk) + (is_backward(kind) ? 1 : 0);
  return row * static_cast<std::size_t>(micro_batches_) + static_cast<std::size_t>(micro_batch);
}

bool Board::is_after(Pass::Kind kind, int chunk, int micro_batch, double message,
                     double now) const {
  if (chunk < 0 || chunk >= chunks_) return true;
  const double end = ends_[index(kind, chunk, micro_batch)];
  return end == kNever || (end != kNotYet && end + message <= now);
}

Cursor* choose(std::vector<Cursor>& cursors, const Board& board, double now) {
  const auto urgency = [](const Cursor& cursor) {
    const NumberedPass& pass = cursor.list->passes[cursor.next];
    return std::tuple(pass.pass.kind == Pass::Kind::kForward, pass.micro_batch, -pass.pass.chunk);
  };
  Cursor* best = nullptr;
  for (Cursor& cursor : cursors) {
    if (cursor.next == cursor.list->passes.size()) continue;
    if (!board.may_run(cursor.list->passes[cursor.next], now)) continue;
    if (best == nullptr || urgency(cursor) < urgency(*best)) best = &cursor;
  }
  return best;
}

void refuse_circle(const std::vector<std::vector<Cursor>>& cursors) {
  std::vector<std::string> waiting;
  for (std::size_t rank = 0; rank < cursors.size(); ++rank) {
    for (const Cursor& cursor : cursors[rank]) {
      if (cursor.next == cursor.list->passes.size()) continue;
      const NumberedPass& pass = cursor.list->passes[cursor.next];
      waiting.push_back(concat("rank ", rank, " at the ",
                               pass.pass.kind == Pass::Kind::kForward ? "forward" : "backward",
                               " of micro-batch ", pass.micro_batch, " on stage ",
                               pass.pass.chunk));
    }
  }
  throw InputError(concat("the passes deadlock, waiting for one another: ", join(waiting, ", ")));
}

}  // namespace
}  // namespace trireme::schedule
