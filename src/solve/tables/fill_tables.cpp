// Order in which threads fill the tiles of a table: O(L^3 top) additions, so order decides the
// speed.
//
//        t ->   J           Tile (I,J) needs the tiles left of it in its row and those below it
//     s  I  [ . . . X ]     in its column. Rows are done from the last layer up; several
//     |         . . |       threads work on rows next to each other as long as the lower
//     v           . v       one is ahead.
//
// SPDX-License-Identifier: Apache-2.0
#include "table_state.h"
#include "tile_filler.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace trireme::solve {
namespace {

// Hands out rows of tiles from the last one up; a tile waits until the one below it is done.
class Rows {
 public:
  Rows(const FillJob& job, int longest);
  void work(Arena& arena);
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void fill_row(int row, TileFiller& filler);

  const FillJob& job_;
  int count_;
  int most_;  // tiles of a row
  std::atomic<int> next_;
  std::vector<std::atomic<int>> done_;  // by row: its tiles up to here, exclusive
  std::mutex mutex_;
  std::exception_ptr error_;
};

void add_backwards(const Costs& costs, Tables::State& state);
constexpr int tiles(int layers) {
  return (layers + kTile - 1) / kTile;
}

}  // namespace

void fill_tables(const Costs& costs, Freedom freedom, const EqualLayers& equal,
                 const Tables::Options& options, Tables::State& state) {
  add_backwards(costs, state);
  const auto layers = static_cast<std::size_t>(costs.last() - costs.first()) + 1;
  // Twins are shared in the order in which one thread meets them: several threads are worth it only
  // where most sub-chains differ, and then they share nothing.
  const bool alone = options.threads == 1 || equal.different() < layers * (layers + 1) / 4;
  const FillJob job(costs, freedom, alone ? &equal : nullptr, state);
  state.arenas.resize(alone ? 1 : static_cast<std::size_t>(options.threads));
  Rows rows(job, options.longest);
  {
    std::vector<std::jthread> others;
    for (std::size_t k = 1; k < state.arenas.size(); ++k) {
      others.emplace_back([&rows, &arena = state.arenas[k]] { rows.work(arena); });
    }
    rows.work(state.arenas.front());
  }
  rows.rethrow();
}

namespace {

// G_i(i): the backward of i alone.
void add_backwards(const Costs& costs, Tables::State& state) {
  for (int i = costs.first(); i <= costs.last(); ++i) {
    if (costs.backward(i) > state.top) continue;
    state.own[static_cast<std::size_t>(i - costs.first())] =
        free_column(static_cast<int>(costs.backward(i)));
  }
}

Rows::Rows(const FillJob& job, int longest)
    : job_(job),
      count_(tiles(job.costs().last() - job.costs().first() + 1)),
      most_(longest == 0 ? count_ : tiles(longest) + 1),
      next_(count_ - 1),
      done_(static_cast<std::size_t>(count_)) {
  for (auto& done : done_) done = 0;
}

void Rows::work(Arena& arena) {
  try {
    TileFiller filler(job_, arena);
    for (int row = next_--; row >= 0; row = next_--) fill_row(row, filler);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::current_exception();
    next_ = -1;
    for (auto& done : done_) {  // the others must not wait for this thread's rows
      done = count_;
      done.notify_all();
    }
  }
}

void Rows::fill_row(int row, TileFiller& filler) {
  auto& mine = done_[static_cast<std::size_t>(row)];
  for (int column = row; column < std::min(count_, row + most_); ++column) {
    if (row + 1 < count_ && column > row) {
      auto& below = done_[static_cast<std::size_t>(row) + 1];
      for (int seen = below; seen <= column; seen = below) below.wait(seen);
    }
    filler.fill(row, column);
    mine = column + 1;
    mine.notify_all();
  }
}

}  // namespace
}  // namespace trireme::solve
