// SPDX-License-Identifier: Apache-2.0
#include "variants.h"

#include "stage/labels.h"
#include "stage/recompute_early.h"

#include <algorithm>
#include <utility>

namespace trireme::partition {
namespace {

/// Shares of a stage's memory for which programs are made.
constexpr double kShares[] = {0.93, 0.86, 0.79, 0.72, 0.65, 0.58, 0.5, 0.4};
constexpr int kRounds = 4;
/// From which run of second forwards on they are moved to before the gradient.
constexpr int kStarts = 2;
/// Programs that keep less and less.
constexpr int kSteps = 6;

struct Variant {
  program::StageProgram program;
  PassTimes times;
};

std::vector<Variant> variants_of(const StageRoom& room, StagePolicy& policy, int stage,
                                 const StageQuestion& asked);
template <class Take>
void each_that_keeps_less(const chain::Chain& chain, StagePolicy& policy,
                          const StageQuestion& asked, StageNeeds needs, Take&& take);
Variant variant(const StageRoom& room, int stage, program::StageProgram program);

}  // namespace

std::optional<std::vector<program::StageProgram>> chosen_programs(const StageRoom& room,
                                                                  StagePolicy& policy,
                                                                  const Cut& cut,
                                                                  const std::vector<Bytes>& less) {
  std::vector<std::vector<Variant>> variants;
  std::vector<PassTimes> times;
  int first = 1;
  for (std::size_t k = 0; k < cut.size(); ++k) {
    const int stage = static_cast<int>(k);
    StageQuestion asked = room.asked(stage, first, cut[k]);
    asked.memory -= less[k];
    variants.push_back(variants_of(room, policy, stage, asked));
    if (variants.back().empty()) return std::nullopt;
    times.push_back(variants.back().front().times);
    first = cut[k] + 1;
  }
  std::vector<std::size_t> choice(cut.size(), 0);
  Timeline timeline(room);
  double least = timeline.step(cut, times);
  bool better = true;
  for (int round = 0; round < kRounds && better; ++round) {
    better = false;
    for (std::size_t k = 0; k < cut.size(); ++k) {
      for (std::size_t v = 0; v < variants[k].size(); ++v) {
        times[k] = variants[k][v].times;
        const double step = timeline.step(cut, times, least);
        if (step >= least * (1 - kGain)) continue;
        least = step;
        choice[k] = v;
        better = true;
      }
      times[k] = variants[k][choice[k]].times;
    }
  }
  std::vector<program::StageProgram> programs;
  for (std::size_t k = 0; k < cut.size(); ++k)
    programs.push_back(std::move(variants[k][choice[k]].program));
  return programs;
}

namespace {

std::vector<Variant> variants_of(const StageRoom& room, StagePolicy& policy, int stage,
                                 const StageQuestion& asked) {
  const chain::Chain& chain = room.question().chain;
  const bool waits = stage + 1 < room.stages();
  std::vector<Variant> variants;
  if (asked.memory < Bytes(0)) return variants;
  const auto add = [&](const program::StageProgram& program) {
    for (int left_alone = 0; left_alone < (waits ? kStarts : 1); ++left_alone) {
      Variant next = variant(room, stage,
                             waits ? recompute_early(chain, asked, program, left_alone) : program);
      const bool dominated = std::any_of(variants.begin(), variants.end(), [&](const Variant& one) {
        return one.times.backward <= next.times.backward && one.times.ahead >= next.times.ahead;
      });
      if (!dominated) variants.push_back(std::move(next));
    }
  };
  const auto fastest = policy.program(asked);
  if (!fastest) return variants;
  add(*fastest);
  const PassTimes& times = variants.front().times;
  const bool again = times.forward + times.backward > room.work(stage, asked.first, asked.last);
  if (!waits || !again) return variants;  // nothing to hide
  for (const double share : kShares) {
    StageQuestion smaller = asked;
    smaller.memory =
        Bytes(static_cast<Bytes::rep>(share * static_cast<double>(asked.memory.count())));
    auto program = policy.program(smaller);
    if (!program) break;
    add(*program);
  }
  each_that_keeps_less(chain, policy, asked, prepared(chain, *fastest).needs, add);
  for (const program::StageProgram& program : short_stage_programs(chain, asked)) add(program);
  return variants;
}

// As if one more micro-batch were in flight, in just too little memory for what takes `needs`: the
// fastest program that keeps less, again and again.
template <class Take>
void each_that_keeps_less(const chain::Chain& chain, StagePolicy& policy,
                          const StageQuestion& asked, StageNeeds needs, Take&& take) {
  StageQuestion crowded = asked;
  crowded.in_flight = asked.in_flight + 1;
  for (int i = 0; i < kSteps; ++i) {
    crowded.memory = needs.memory(crowded.in_flight) - Bytes(1);
    const auto next = policy.program(crowded);
    if (!next) return;
    needs = prepared(chain, *next).needs;
    if (needs.memory(asked.in_flight) <= asked.memory) take(*next);
  }
}

Variant variant(const StageRoom& room, int stage, program::StageProgram program) {
  const chain::Chain& chain = room.question().chain;
  const double speed = room.speed(stage);
  Prepared ready = prepared(chain, std::move(program));
  const PassTimes times{.forward = ready.needs.forward.count() / speed,
                        .backward = ready.needs.backward.count() / speed,
                        .ahead = ahead(chain, ready.program) / speed};
  return {std::move(ready.program), times};
}

}  // namespace
}  // namespace trireme::partition
