// Sizes of slots and distances of slacks, by what tables cost.
//
// SPDX-License-Identifier: Apache-2.0
#include "stage_levels.h"

#include "trireme/core/cores.h"
#include "trireme/core/error.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace trireme::solve {
namespace {

// Layers of the shortest band; each is twice as long as the one before.
constexpr int kShortest = 32;
// Additions that a table may take for smaller slots: as small as the number in flight asks for, or
// two steps smaller. And the numbers that it may store.
constexpr double kWork = 3e9, kLittleWork = 2e8, kMostStored = 4e7;
constexpr int kFinest = 12;
// Additions for the columns of stages (of which a search looks at a part), and the numbers of
// slacks that they are spread over: as many as are cheap, kSlacks where that is not too much.
constexpr double kLittleColumnWork = 5e8, kColumnWork = 4e10;
constexpr double kFewestSlacks = 16, kSlacks = 80, kMostSlacks = 200;
// The same for tables of one stage alone.
constexpr double kOneStageWork = 3e8;
constexpr int kOneStageLayers = 32;
// Additions from which on a second thread is worth its start.
constexpr double kWorthThreads = 5e9;
// Bytes of tables for stages alone that are cached.
constexpr std::size_t kMostOfFiner = std::size_t{64} << 20;
// Slots beyond the memory's own, as a share: what rounding up may have wasted, and what retapes
// save against the whole tapes that tables count.
constexpr double kBeyond = 0.125;

int log2_of(int number) {
  return static_cast<int>(std::bit_width(static_cast<unsigned>(number))) - 1;
}

// `sub_chains` sub-chains of up to `layers` layers have two columns each; a split takes two
// additions.
double additions_of(double sub_chains, double layers, double slots) {
  return sub_chains * layers / 3 * 4 * slots;
}

}  // namespace

StageLevels::StageLevels(const chain::Chain& chain, Bytes memory, int slots, Freedom freedom)
    : chain_(chain),
      memory_(std::max(memory, Bytes(1))),
      slots_(slots == 0 ? kManySlots : slots),
      freedom_(freedom),
      different_(static_cast<double>(EqualLayers(chain, 1, chain.length()).different())) {
  has_retapes_ = std::any_of(chain.layers.begin(), chain.layers.end(),
                             [](const chain::LayerCost& layer) { return layer.retape; });
  exact_ = memory_ <= Bytes(slots == 0 ? kMostExact : slots);
  unit_ = exact_ ? Bytes(1) : Bytes((memory_.count() + slots_ - 1) / slots_);
}

StageTables& StageLevels::of(int layers, int in_flight) {
  const int band = band_of(layers), level = level_of(band, in_flight);
  auto& tables = tables_[{band, level}];
  if (tables) return *tables;
  const int cores = usable_processors();
  const bool several = additions(band, level) > kWorthThreads;
  int least = 2;  // least number in flight that uses these tables
  while (least < in_flight && level_of(band, least) != level) ++least;
  tables = std::make_unique<StageTables>(
      chain_, chain::LayerRange{1, chain_.length()},
      StageTables::Options{.tables = {.freedom = freedom_,
                                      .unit = slot(level),
                                      .top = top(slot(level), memory_),
                                      .threads = several ? std::clamp(cores, 1, 8) : 1,
                                      .longest = band},
                           .least_in_flight = least,
                           .slack_step = slack_step(band, level, least)});
  return *tables;
}

StageTables* StageLevels::finer(chain::LayerRange layers, int in_flight, Bytes memory) {
  const int count = layers.size();
  if (exact_ || memory <= Bytes(0)) return nullptr;
  int halvings = 0;
  Bytes most = memory_;
  for (; most / 2 >= memory; most = most / 2) ++halvings;
  if (slot_alone(count, in_flight, most) >= of(count, in_flight).costs().unit()) return nullptr;
  forget_finer();
  Finer& found = finer_[{layers, in_flight, halvings}];
  found.used = ++uses_;
  if (!found.tables) found.tables = alone(layers, in_flight, most);
  return found.tables.get();
}

void StageLevels::forget_finer() {
  std::size_t total = 0;
  for (const auto& [key, one] : finer_) total += one.tables->size();
  while (total > kMostOfFiner) {
    const auto oldest = std::min_element(
        finer_.begin(), finer_.end(),
        [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
    total -= oldest->second.tables->size();
    finer_.erase(oldest);
  }
}

std::unique_ptr<StageTables> StageLevels::alone(chain::LayerRange layers, int in_flight,
                                                Bytes memory) const {
  const Bytes slot = slot_alone(layers.size(), in_flight, memory);
  const int most = top(slot, memory);
  const bool all = layers.size() <= kOneStageLayers;
  return std::make_unique<StageTables>(
      chain_, layers,
      StageTables::Options{
          .tables = {.freedom = freedom_, .unit = slot, .top = most},
          .least_in_flight = in_flight,
          // With slacks one slot per micro-batch apart, families are the same for all memories.
          .slack_step = std::max(slot == Bytes(1) ? 1 : in_flight,
                                 all ? 1 : most / static_cast<int>(kMostSlacks))});
}

Bytes StageLevels::slot_alone(int layers, int in_flight, Bytes memory) const {
  const double n = layers, bytes = static_cast<double>(memory.count());
  const double affordable =
      kOneStageWork / additions_of(std::min(n * n / 2, sub_chains(layers)), n, 1);
  const double slots =
      std::min({affordable, 2.0 * slots_ * in_flight, kMostSlots / (1 + kBeyond), bytes});
  return Bytes(static_cast<std::int64_t>(std::ceil(bytes / std::max(slots, 1.0))));
}

std::size_t StageLevels::size() const {
  std::size_t total = 0;
  for (const auto& [key, tables] : tables_) total += tables->size();
  for (const auto& [key, one] : finer_) total += one.tables->size();
  return total;
}

int StageLevels::band_of(int layers) const {
  int band = kShortest;
  while (band < layers) band *= 2;
  return 3 * band >= 2 * chain_.length() || exact_ ? chain_.length() : band;
}

int StageLevels::level_of(int band, int in_flight) const {
  if (exact_) return 0;
  const int wanted = log2_of(in_flight);
  int level = 0;
  for (int k = 1; k <= std::min(wanted + 2, kFinest) && unit_.count() >> k > 0; ++k) {
    const int most = top(slot(k), memory_);
    if (most > kMostSlots || 2 * sub_chains(band) * most > kMostStored ||
        additions(band, k) > (k > wanted ? kLittleWork : kWork)) {
      break;
    }
    level = k;
  }
  return level;
}

int StageLevels::top(Bytes slot, Bytes memory) const {
  const bool is_exact = slot == Bytes(1) && !has_retapes_;
  return static_cast<int>((is_exact ? 1 : 1 + kBeyond) * (memory / slot));
}

// Different sub-chains of up to `band` layers; where layers are equal, about as many of each
// length.
double StageLevels::sub_chains(int band) const {
  const double n = chain_.length(), length = band;
  const double all = length * (2 * n - length + 1) / 2;
  return std::min(all, different_ * length / n);
}

double StageLevels::additions(int band, int level) const {
  return additions_of(sub_chains(band), band, top(slot(level), memory_));
}

int StageLevels::slack_step(int band, int level, int least_in_flight) const {
  if (exact_) return 1;
  const double most = top(slot(level), memory_);
  const double reach = most / (2.0 * least_in_flight);
  const double work = sub_chains(band) * band * reach;
  const double slacks =
      std::clamp(std::max(kLittleColumnWork / work, std::min(kSlacks, kColumnWork / work)),
                 kFewestSlacks, kMostSlacks);
  return std::max(1, static_cast<int>(most / slacks));
}

}  // namespace trireme::solve
