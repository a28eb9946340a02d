// ZB-V and DualPipeV, rank by rank as runs of patterns.
// SPDX-License-Identifier: Apache-2.0
#include "makers.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <deque>
#include <initializer_list>

namespace trireme::schedule {
namespace {

using Kind = Pass::Kind;

// Passes of a rank's chunk on the way down (0) and of the one on the way up (1).
constexpr Pass kF0{.kind = Kind::kForward, .chunk = 0}, kF1{.kind = Kind::kForward, .chunk = 1};
constexpr Pass kB0{.kind = Kind::kBackward, .chunk = 0}, kB1{.kind = Kind::kBackward, .chunk = 1};
constexpr Pass kI0{.kind = Kind::kBackwardInput, .chunk = 0};
constexpr Pass kI1{.kind = Kind::kBackwardInput, .chunk = 1};
constexpr Pass kW0{.kind = Kind::kBackwardWeights, .chunk = 0};
constexpr Pass kW1{.kind = Kind::kBackwardWeights, .chunk = 1};
/// The W of the earliest I that still waits for its own.
constexpr Pass kOldestW{.kind = Kind::kBackwardWeights, .chunk = -1};

std::vector<Pass> zb_v_of(int ranks, int rank, int micro_batches);
std::vector<Pass> dualpipe_v_of(int ranks, int rank, int micro_batches);

void repeat(std::vector<Pass>& passes, int times, std::initializer_list<Pass> pattern);
void name_oldest(std::vector<Pass>& passes);
/// With the chunks' own numbers.
std::vector<Pass> numbered(std::vector<Pass> passes, int ranks, int rank);

}  // namespace

Order zb_v(int ranks, int micro_batches) {
  Order order;
  for (int rank = 0; rank < ranks; ++rank)
    order.push_back(numbered(zb_v_of(ranks, rank, micro_batches), ranks, rank));
  return order;
}

Order dualpipe_v(int ranks, int micro_batches) {
  if (micro_batches < 2 * ranks)
    throw InputError(concat("schedule: dualpipe-v on ", ranks, " ranks needs at least ", 2 * ranks,
                            " micro-batches, found ", micro_batches,
                            "; take more, or zb-v, which runs any number"));
  Order order;
  for (int rank = 0; rank < ranks; ++rank)
    order.push_back(numbered(dualpipe_v_of(ranks, rank, micro_batches), ranks, rank));
  return order;
}

namespace {

std::vector<Pass> zb_v_of(int ranks, int rank, int micro_batches) {
  // Fewer micro-batches would turn back before all ranks are full: laid out for as many as fill
  // them, of which the surplus then does not run.
  const int laid_out = std::max(micro_batches, 2 * ranks - 1);
  const int to_turn = ranks - rank;  // from here to the turn of the V, this rank included
  std::vector<Pass> passes;
  repeat(passes, 2 * to_turn - 1, {kF0});
  repeat(passes, rank, {kF1, kF0});
  repeat(passes, to_turn, {kF1, kI1, kW1});
  repeat(passes, laid_out - ranks - to_turn + 1, {kF0, kI0, kW0, kF1, kI1, kW1});
  repeat(passes, to_turn - 1, {kI0, kW0, kF1, kI1, kW1});
  repeat(passes, rank, {kI1, kI0});
  repeat(passes, to_turn, {kI0, kW0});
  repeat(passes, rank, {kW1});
  repeat(passes, rank, {kW0});
  return without_surplus(passes, micro_batches);
}

std::vector<Pass> dualpipe_v_of(int ranks, int rank, int micro_batches) {
  const int beyond = ranks - rank - 1;  // ranks from here to the turn of the V
  std::vector<Pass> passes;
  repeat(passes, 2 * beyond, {kF0});
  repeat(passes, rank + 1, {kF0, kF1});
  repeat(passes, beyond, {kI1, kW1, kF1});
  repeat(passes, micro_batches - 2 * ranks + rank + 1, {kF0, kB1, kF1, kB0});
  repeat(passes, beyond, {kB1, kF1, kB0});
  // rank + 1 pairs of backwards; the first rank + 1 of these backwards are whole
  repeat(passes, (rank + 1) / 2, {kB1, kB0});
  repeat(passes, (rank + 1) % 2, {kB1, kI0});
  repeat(passes, (rank + 1) / 2, {kI1, kI0});
  repeat(passes, beyond, {kOldestW, kI0});
  repeat(passes, rank + 1, {kOldestW});
  name_oldest(passes);
  return passes;
}

void repeat(std::vector<Pass>& passes, int times, std::initializer_list<Pass> pattern) {
  for (int i = 0; i < times; ++i) passes.insert(passes.end(), pattern);
}

void name_oldest(std::vector<Pass>& passes) {
  std::deque<int> waiting;  // chunks of I's
  for (Pass& pass : passes) {
    if (pass.kind == Kind::kBackwardInput) waiting.push_back(pass.chunk);
    if (pass.kind != Kind::kBackwardWeights) continue;
    pass.chunk = waiting.front();
    waiting.pop_front();
  }
}

std::vector<Pass> numbered(std::vector<Pass> passes, int ranks, int rank) {
  for (Pass& pass : passes) pass.chunk = pass.chunk == 0 ? rank : 2 * ranks - 1 - rank;
  return passes;
}

}  // namespace
}  // namespace trireme::schedule
