// SPDX-License-Identifier: Apache-2.0
#include "chunk_cut.h"

#include "cut/least_cut.h"

#include "trireme/partition/balance.h"

#include <tuple>

namespace trireme::partition {
namespace {

/// Most passes over all moves.
constexpr int kRounds = 200;

/// What a rank lacks, the largest sum of a rank's chunks, and the sum of all squares.
struct Load {
  Bytes lack;
  Seconds largest;
  double squares = 0;
  bool is_less_than(const Load& other) const {
    if (lack != other.lack) return lack < other.lack;
    return std::tuple(largest * (1 + kGain), squares) < std::tuple(other.largest, other.squares) ||
           largest * (1 + kGain) < other.largest;
  }
};

Load load_of(const StageRoom& room, const schedule::Placement& placement, const Cut& cut) {
  std::vector<Seconds> sums(at(schedule::ranks_of(placement)));
  for (std::size_t chunk = 0; chunk < cut.size(); ++chunk)
    sums[at(placement[chunk])] +=
        room.work(placement[chunk], layers_of(cut, static_cast<int>(chunk)));
  Load load;
  for (const Seconds sum : sums) {
    load.largest = std::max(load.largest, sum);
    load.squares += sum.count() * sum.count();
  }
  return load;
}

/// The cut with the ends of the chunks first..last moved by `step` layers; empty if a chunk would
/// have no layer left.
std::optional<Cut> moved(const Cut& cut, std::size_t first, std::size_t last, int step) {
  Cut other = cut;
  for (std::size_t chunk = first; chunk <= last; ++chunk) other[chunk] += step;
  const int before = first == 0 ? 0 : other[first - 1];
  if (other[first] <= before || other[last] >= other[last + 1]) return std::nullopt;
  return other;
}

/// Moves ends of the chunks while that makes the load less.
Cut descended(Cut cut, const std::function<Load(const Cut&)>& load_of) {
  Load least = load_of(cut);
  for (int round = 0; round < kRounds; ++round) {
    Cut best = cut;
    Load best_load = least;
    for (std::size_t first = 0; first + 1 < cut.size(); ++first) {
      for (std::size_t last = first; last + 1 < cut.size(); ++last) {
        for (const int step : {-1, 1}) {
          const std::optional<Cut> other = moved(cut, first, last, step);
          if (!other) continue;
          const Load load = load_of(*other);
          if (!load.is_less_than(best_load)) continue;
          best = *other;
          best_load = load;
        }
      }
    }
    if (best == cut) break;
    cut = std::move(best);
    least = best_load;
  }
  return cut;
}

}  // namespace

Cut balanced_chunks(const StageRoom& room, const schedule::Placement& placement) {
  std::vector<double> work;
  for (int layer = 1; layer <= room.layers(); ++layer)
    work.push_back((room.work(0, {layer, layer}) * room.speed(0)).count());
  Cut cut = balanced_cut(work, static_cast<int>(placement.size()));
  cut.push_back(room.layers());
  return descended(std::move(cut), [&](const Cut& one) { return load_of(room, placement, one); });
}

Cut roomy_chunks(const StageRoom& room, const schedule::Placement& placement, Cut cut,
                 const std::function<Bytes(const Cut&)>& lack) {
  if (lack(cut) <= Bytes(0)) return cut;
  return descended(std::move(cut), [&](const Cut& one) {
    Load load = load_of(room, placement, one);
    load.lack = std::max(lack(one), Bytes(0));
    return load;
  });
}

}  // namespace trireme::partition
