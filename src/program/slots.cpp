// List scheduling of passes.
// SPDX-License-Identifier: Apache-2.0
#include "slots.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

namespace trireme::program {
namespace {

/// End times of all passes of (kind, stage, micro-batch).
class Board {
 public:
  Board(const std::vector<PassList>& lists, const StageTimes* times);

  bool may_run(const StagePass& next, double now) const;
  double length(const StagePass& pass) const;
  /// Records the end; returns when the neighbour stage may go on.
  double ends(const StagePass& pass, double end);

 private:
  static constexpr double kNever = -2;  // the lists have no such pass: nothing waits for it
  static constexpr double kNotYet = -1;

  std::size_t index(Pass::Kind kind, int stage, int micro_batch) const;
  /// Whether the pass has ended and its message of `message` seconds arrived by `now`, or it is not
  /// part of the lists.
  bool behind(Pass::Kind kind, int stage, int micro_batch, double message, double now) const;
  /// Seconds of a message between `stage` and the next.
  double message(int stage) const;

  const StageTimes* times_;
  int stages_ = 0, micro_batches_ = 0;
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

Placed place(const std::vector<PassList>& lists, int ranks, const StageTimes* times) {
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
      const StagePass& pass = cursor->list->passes[cursor->next++];
      free[rank] = now + board.length(pass);
      events.insert({free[rank], board.ends(pass, free[rank])});
      placed.ranks[rank].push_back({pass, now});
      placed.end = std::max(placed.end, free[rank]);
      --left;
    }
  }
  return placed;
}

namespace {

Board::Board(const std::vector<PassList>& lists, const StageTimes* times) : times_(times) {
  for (const PassList& list : lists) {
    for (const StagePass& pass : list.passes) {
      stages_ = std::max(stages_, pass.stage + 1);
      micro_batches_ = std::max(micro_batches_, pass.pass.micro_batch + 1);
    }
  }
  ends_.assign(2 * static_cast<std::size_t>(stages_) * static_cast<std::size_t>(micro_batches_),
               kNever);
  for (const PassList& list : lists) {
    for (const StagePass& pass : list.passes)
      ends_[index(pass.pass.kind, pass.stage, pass.pass.micro_batch)] = kNotYet;
  }
}

bool Board::may_run(const StagePass& next, double now) const {
  const auto [kind, micro_batch] = next.pass;
  if (kind == Pass::Kind::kForward)
    return behind(kind, next.stage - 1, micro_batch, message(next.stage - 1), now);
  return behind(Pass::Kind::kForward, next.stage, micro_batch, 0, now) &&
         behind(kind, next.stage + 1, micro_batch, message(next.stage), now);
}

double Board::length(const StagePass& pass) const {
  if (times_ == nullptr) return 1;
  const auto& lengths = pass.pass.kind == Pass::Kind::kForward ? times_->forward : times_->backward;
  return lengths[static_cast<std::size_t>(pass.stage)];
}

double Board::ends(const StagePass& pass, double end) {
  ends_[index(pass.pass.kind, pass.stage, pass.pass.micro_batch)] = end;
  return end + message(pass.pass.kind == Pass::Kind::kForward ? pass.stage : pass.stage - 1);
}

double Board::message(int stage) const {
  if (times_ == nullptr || stage < 0 || stage + 1 >= stages_) return 0;
  return times_->message[static_cast<std::size_t>(stage)];
}

std::size_t Board::index(Pass::Kind kind, int stage, int micro_batch) const {
  const auto row = 2 * static_cast<std::size_t>(stage) + (kind == Pass::Kind::kBackward ? 1 : 0);
  return row * static_cast<std::size_t>(micro_batches_) + static_cast<std::size_t>(micro_batch);
}

bool Board::behind(Pass::Kind kind, int stage, int micro_batch, double message, double now) const {
  if (stage < 0 || stage >= stages_) return true;
  const double end = ends_[index(kind, stage, micro_batch)];
  return end == kNever || (end != kNotYet && end + message <= now);
}

Cursor* choose(std::vector<Cursor>& cursors, const Board& board, double now) {
  const auto urgency = [](const Cursor& cursor) {
    const StagePass& pass = cursor.list->passes[cursor.next];
    return std::tuple(pass.pass.kind == Pass::Kind::kForward, pass.pass.micro_batch, -pass.stage);
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
      const StagePass& pass = cursor.list->passes[cursor.next];
      waiting.push_back(concat("rank ", rank, " at the ",
                               pass.pass.kind == Pass::Kind::kForward ? "forward" : "backward",
                               " of micro-batch ", pass.pass.micro_batch, " on stage ",
                               pass.stage));
    }
  }
  throw InputError(concat("the passes deadlock, waiting for one another: ", join(waiting, ", ")));
}

}  // namespace
}  // namespace trireme::program
