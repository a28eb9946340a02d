// SPDX-License-Identifier: Apache-2.0
#include "stage_options.h"

#include "values/lookup.h"

#include "trireme/program/generate.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace trireme::partition {
namespace {

/// Most combinations of choices kept.
constexpr std::size_t kCombinations = 256;

/// Choices for the first stages of a rank, with their needs.
struct Combination {
  Bytes kept, beyond;
  Seconds time;
  std::vector<const Prepared*> choices;

  bool beats(const Combination& other) const {
    return kept <= other.kept && beyond <= other.beyond && time <= other.time;
  }
};

StageQuestion question(chain::LayerRange layers, Bytes memory, int in_flight,
                       StageOptions::How how) {
  return {.layers = layers,
          .memory = memory,
          .in_flight = in_flight,
          .quick = how == StageOptions::How::kQuick};
}

/// The non-dominated combinations; at most kCombinations, evenly spread by time.
std::vector<Combination> best_of(std::vector<Combination> all) {
  std::sort(all.begin(), all.end(), [](const Combination& a, const Combination& b) {
    return std::tuple(a.time, a.kept, a.beyond) < std::tuple(b.time, b.kept, b.beyond);
  });
  std::vector<Combination> best;
  for (Combination& one : all) {
    const bool beaten = std::any_of(best.begin(), best.end(),
                                    [&](const Combination& other) { return other.beats(one); });
    if (!beaten) best.push_back(std::move(one));
  }
  if (best.size() <= kCombinations) return best;
  std::vector<Combination> few;
  for (std::size_t i = 0; i < kCombinations; ++i)
    few.push_back(std::move(best[i * (best.size() - 1) / (kCombinations - 1)]));
  return few;
}

}  // namespace

const Prepared* StageOptions::fastest(chain::LayerRange layers, Bytes memory, int in_flight,
                                      How how) {
  if (memory < Bytes(0)) return nullptr;
  const chain::LayerRange run = alike_.earliest(layers);
  const auto& found =
      once(fastest_, {run, memory, in_flight, how}, [&]() -> std::optional<Prepared> {
        auto program = policy_.program(question(run, memory, in_flight, how));
        if (!program) return std::nullopt;
        return prepared(room_.question().chain, *std::move(program));
      });
  return found ? &*found : nullptr;
}

const std::vector<Prepared>& StageOptions::several(chain::LayerRange layers, Bytes most,
                                                   int in_flight, How how,
                                                   const std::optional<solve::HostLink>& link) {
  const chain::LayerRange run = alike_.earliest(layers);
  return once(several_, {{run, most, in_flight, how}, key_of(link)}, [&] {
    std::vector<Prepared> found;
    if (most < Bytes(0)) return found;
    const chain::Chain& chain = room_.question().chain;
    const StageNeeds all = prepared(chain, program::keep_all(run.first, run.last)).needs;
    const Bytes enough = std::min(all.memory(in_flight), most);
    const Bytes least = most == kUnlimited ? enough : policy_.least_memory(run, in_flight);
    for (int level = 0; level < levels_ && least <= enough; ++level) {
      const Bytes memory = least + (enough - least) * level / (levels_ - 1);
      StageQuestion asked = question(run, memory, in_flight, how);
      asked.link = link;
      auto program = policy_.program(asked);
      if (!program || (!found.empty() && found.back().program == *program)) continue;
      found.push_back(prepared(chain, *std::move(program), link));
    }
    return found;
  });
}

std::optional<std::vector<const Prepared*>> StageOptions::shared(const std::vector<Asked>& stages,
                                                                 Bytes memory, How how) {
  std::vector<Combination> combinations(1);
  for (const Asked& stage : stages) {
    std::vector<Combination> longer;
    for (const Prepared& choice : several(stage.layers, memory, stage.in_flight, how)) {
      for (const Combination& before : combinations) {
        Combination next = before;
        next.kept += choice.needs.kept * stage.in_flight;
        next.beyond = std::max(next.beyond, choice.needs.beyond_kept());
        next.time += choice.needs.time();
        next.choices.push_back(&choice);
        if (next.kept + next.beyond <= memory) longer.push_back(std::move(next));
      }
    }
    combinations = best_of(std::move(longer));
  }
  if (combinations.empty()) return std::nullopt;
  return combinations.front().choices;
}

}  // namespace trireme::partition
