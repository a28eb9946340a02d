// List scheduling of passes on equal slots.
// SPDX-License-Identifier: Apache-2.0
#include "slots.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <optional>
#include <tuple>

namespace trireme::program {
namespace {

/// In which slot every pass of (kind, stage, micro-batch) has run.
class Board {
 public:
  explicit Board(const std::vector<PassList>& lists);

  bool may_run(const StagePass& next, int slot) const;
  void ran(const StagePass& pass, int slot) {
    slots_[index(pass.pass.kind, pass.stage, pass.pass.micro_batch)] = slot;
  }

 private:
  static constexpr int kNever = -2;  // the lists have no such pass: nobody waits for it
  static constexpr int kNotYet = -1;

  std::size_t index(Pass::Kind kind, int stage, int micro_batch) const;
  /// Ended before `slot`, or not part of the lists.
  bool behind(Pass::Kind kind, int stage, int micro_batch, int slot) const;

  int stages_ = 0, micro_batches_ = 0;
  std::vector<int> slots_;
};

struct Cursor {
  const PassList* list = nullptr;
  std::size_t next = 0;
};

/// The cursor of `cursors` whose pass may and should run next.
Cursor* choose(std::vector<Cursor>& cursors, const Board& board, int slot);

[[noreturn]] void refuse_circle(const std::vector<std::vector<Cursor>>& cursors);

}  // namespace

std::vector<std::vector<SlottedPass>> place(const std::vector<PassList>& lists, int ranks) {
  Board board(lists);
  std::vector<std::vector<Cursor>> cursors(static_cast<std::size_t>(ranks));
  std::size_t left = 0;
  for (const PassList& list : lists) {
    cursors[static_cast<std::size_t>(list.rank)].push_back({&list, 0});
    left += list.passes.size();
  }
  std::vector<std::vector<SlottedPass>> placed(static_cast<std::size_t>(ranks));
  for (int slot = 0; left > 0; ++slot) {
    bool moved = false;
    for (std::size_t rank = 0; rank < cursors.size(); ++rank) {
      Cursor* cursor = choose(cursors[rank], board, slot);
      if (cursor == nullptr) continue;
      const StagePass& pass = cursor->list->passes[cursor->next++];
      board.ran(pass, slot);
      placed[rank].push_back({pass, slot});
      moved = true;
      --left;
    }
    if (!moved) refuse_circle(cursors);
  }
  return placed;
}

namespace {

Board::Board(const std::vector<PassList>& lists) {
  for (const PassList& list : lists) {
    for (const StagePass& pass : list.passes) {
      stages_ = std::max(stages_, pass.stage + 1);
      micro_batches_ = std::max(micro_batches_, pass.pass.micro_batch + 1);
    }
  }
  slots_.assign(2 * static_cast<std::size_t>(stages_) * static_cast<std::size_t>(micro_batches_),
                kNever);
  for (const PassList& list : lists) {
    for (const StagePass& pass : list.passes) ran(pass, kNotYet);
  }
}

bool Board::may_run(const StagePass& next, int slot) const {
  const auto [kind, micro_batch] = next.pass;
  if (kind == Pass::Kind::kForward) return behind(kind, next.stage - 1, micro_batch, slot);
  return behind(Pass::Kind::kForward, next.stage, micro_batch, slot) &&
         behind(kind, next.stage + 1, micro_batch, slot);
}

std::size_t Board::index(Pass::Kind kind, int stage, int micro_batch) const {
  const auto row = 2 * static_cast<std::size_t>(stage) + (kind == Pass::Kind::kBackward ? 1 : 0);
  return row * static_cast<std::size_t>(micro_batches_) + static_cast<std::size_t>(micro_batch);
}

bool Board::behind(Pass::Kind kind, int stage, int micro_batch, int slot) const {
  if (stage < 0 || stage >= stages_) return true;
  const int when = slots_[index(kind, stage, micro_batch)];
  return when == kNever || (when != kNotYet && when < slot);
}

Cursor* choose(std::vector<Cursor>& cursors, const Board& board, int slot) {
  const auto urgency = [](const Cursor& cursor) {
    const StagePass& pass = cursor.list->passes[cursor.next];
    return std::tuple(pass.pass.kind == Pass::Kind::kForward, pass.pass.micro_batch, -pass.stage);
  };
  Cursor* best = nullptr;
  for (Cursor& cursor : cursors) {
    if (cursor.next == cursor.list->passes.size()) continue;
    if (!board.may_run(cursor.list->passes[cursor.next], slot)) continue;
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
  throw InputError(concat("the passes wait for one another in a circle: ", join(waiting, ", ")));
}

}  // namespace
}  // namespace trireme::program
