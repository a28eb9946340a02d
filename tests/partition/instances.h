// Questions for the planner's tests.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "solve/chains.h"

#include "trireme/partition/planner.h"
#include "trireme/program/generate.h"
#include "trireme/simulate/replay.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace trireme::partition {

struct Sizes {
  int least_layers = 2, most_layers = 6;
  int least_stages = 2, most_stages = 3;
  int most_micro_batches = 6;
  bool copies = false;  ///< some ranks with an offload tier
};

inline int between(std::mt19937& random, int least, int most) {
  return std::uniform_int_distribution(least, most)(random);
}

/// All ways to end `stages` - 1 stages before the last of `layers`, as Question::cut has them.
inline std::vector<std::vector<int>> every_cut(int layers, int stages) {
  std::vector<std::vector<int>> cuts{{}};
  for (int k = 1; k < stages; ++k) {
    std::vector<std::vector<int>> longer;
    for (const std::vector<int>& cut : cuts) {
      for (int last = cut.empty() ? 1 : cut.back() + 1; last <= layers - (stages - k); ++last) {
        longer.push_back(cut);
        longer.back().push_back(last);
      }
    }
    cuts = std::move(longer);
  }
  return cuts;
}

/// Layers with times of 1..9 and sizes of a few bytes.
inline chain::Chain small_chain(std::mt19937& random, int layers) {
  chain::Chain chain{.name = "random", .input = Bytes(between(random, 0, 4)), .layers = {}};
  for (int i = 1; i <= layers; ++i) {
    const std::int64_t output = between(random, 0, 4);
    chain::LayerCost layer = solve::layer(between(random, 1, 9), between(random, 1, 9), output,
                                          output + between(random, 0, 6));
    layer.forward_transient = Bytes(between(random, 0, 2));
    layer.tape_transient = Bytes(between(random, 0, 2));
    layer.backward_transient = chain.output(i - 1) + Bytes(between(random, 0, 3));
    layer.parameters = Bytes(between(random, 0, 3));
    chain.layers.push_back(layer);
  }
  return chain;
}

/// Ranks, links and micro-batches at random; budgets between what hardly works and plenty.
inline Question small_question(std::mt19937& random, const Sizes& sizes) {
  Question question;
  const int layers = between(random, sizes.least_layers, sizes.most_layers);
  question.stages = std::min(layers, between(random, sizes.least_stages, sizes.most_stages));
  question.chain = small_chain(random, layers);
  question.micro_batches = between(random, 1, sizes.most_micro_batches);
  question.slots = 0;
  question.platform = chain::uniform_platform(question.stages, Bytes(0));
  const bool equal = between(random, 0, 1) == 0;
  const simulate::Replay all = simulate::replay(question.chain, program::keep_all(1, layers));
  const int most = static_cast<int>(all.peak.count() * 3 / 2), least = most / 8 + 4;
  const int memory = between(random, least, std::max(least, most));
  for (chain::RankSpec& rank : question.platform.ranks) {
    rank.memory = Bytes(equal ? memory : between(random, least, std::max(least, most)));
    if (!equal) rank.speed = between(random, 1, 3);
    if (!sizes.copies || between(random, 0, 1) == 0) continue;
    rank.host = Bytes(between(random, 0, 60));
    rank.out = BytesPerSecond(between(random, 1, 4));
    rank.in = BytesPerSecond(between(random, 1, 4));
  }
  if (between(random, 0, 2) == 0)
    question.platform.default_link = {BytesPerSecond(between(random, 1, 4)),
                                      Seconds(between(random, 0, 1))};
  if (question.stages > 2 && between(random, 0, 2) == 0)
    question.platform.overrides.push_back({1, 2, {BytesPerSecond(between(random, 1, 4)), {}}});
  if (between(random, 0, 2) == 0) question.platform.channel_buffers = 0.5;
  if (between(random, 0, 4) == 0) question.schedule = "gpipe";
  return question;
}

/// The same with as many in flight as the schedule has, and no others tried.
inline Question as_scheduled(Question question) {
  for (int k = 0; k < question.stages; ++k)
    question.in_flight.push_back(std::min(question.stages - k, question.micro_batches));
  return question;
}

}  // namespace trireme::partition
