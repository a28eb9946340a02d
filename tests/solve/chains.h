// Chains for the solvers' tests.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/solve/solve.h"

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::solve {

/// A chain as the papers write it: 0-based stages, sizes[0] is the input; `saved` belongs to the
/// stages; the backward's extra is without the input's gradient.
struct PaperChain {
  std::vector<double> forward, backward;
  std::vector<std::int64_t> sizes;  ///< x, one more than stages
  std::vector<std::int64_t> saved;  ///< what a taped forward leaves, output included
  std::vector<std::int64_t> forward_extra{}, backward_extra{};
};

inline chain::LayerCost layer(double forward, double backward, std::int64_t output,
                              std::int64_t tape) {
  chain::LayerCost layer;
  layer.forward = Seconds(forward);
  layer.backward = Seconds(backward);
  layer.output = Bytes(output);
  layer.tape = Bytes(tape);
  return layer;
}

/// The chain in our own notation, without a loss.
inline chain::Chain without_loss(const PaperChain& paper) {
  chain::Chain chain{.name = "paper", .input = Bytes(paper.sizes[0]), .layers = {}};
  for (std::size_t i = 0; i < paper.forward.size(); ++i) {
    chain::LayerCost cost =
        layer(paper.forward[i], paper.backward[i], paper.sizes[i + 1], paper.saved[i]);
    const std::int64_t extra = paper.forward_extra.empty() ? 0 : paper.forward_extra[i];
    cost.forward_transient = cost.tape_transient = Bytes(extra);
    cost.backward_transient =
        Bytes(paper.sizes[i] + (paper.backward_extra.empty() ? 0 : paper.backward_extra[i]));
    chain.layers.push_back(cost);
  }
  return chain;
}

/// The same with the loss as a layer of its own: no time, no tape, no output.
inline chain::Chain with_loss(const PaperChain& paper) {
  chain::Chain chain = without_loss(paper);
  chain::LayerCost loss = layer(0, 0, 0, 0);
  loss.backward_transient = Bytes(paper.sizes.back());
  chain.layers.push_back(loss);
  return chain;
}

/// f = 1, b = 2, every output 1 and every tape 3 bytes.
inline PaperChain homogeneous(int stages) {
  const auto n = static_cast<std::size_t>(stages);
  return {.forward = std::vector<double>(n, 1),
          .backward = std::vector<double>(n, 2),
          .sizes = std::vector<std::int64_t>(n + 1, 1),
          .saved = std::vector<std::int64_t>(n, 3)};
}

inline PaperChain chain_a() {
  return {.forward = {2, 3, 1, 4},
          .backward = {3, 5, 2, 6},
          .sizes = {1, 2, 1, 2, 1},
          .saved = {4, 3, 5, 2}};
}

inline PaperChain chain_b() {
  return {.forward = {4, 8, 6, 5, 3, 2},
          .backward = {7, 15, 11, 9, 6, 3},
          .sizes = {2, 6, 3, 3, 2, 2, 1},
          .saved = {10, 6, 7, 4, 4, 1},
          .forward_extra = {0, 1, 0, 1, 0, 0},
          .backward_extra = {1, 2, 1, 1, 0, 0}};
}

inline Problem whole(const chain::Chain& chain, std::int64_t budget, int slots = 0) {
  return {.chain = &chain,
          .first_layer = 1,
          .last_layer = chain.length(),
          .budget = Bytes(budget),
          .link = {},
          .slots = slots};
}

/// What random chains may look like.
struct Shape {
  int most_layers = 7;
  std::int64_t most_output = 4;
  std::int64_t most_tape_beyond = 6;  ///< tape above the output
  std::int64_t extra_per_output = 4;  ///< transients up to this many times the largest output
  bool lean_tapes = false;            ///< tapes below the output, as views leave
  int most_time = 9;
};

inline chain::Chain random_chain(std::mt19937& random, const Shape& shape, int layers) {
  const auto pick = [&](std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(0, most)(random);
  };
  chain::Chain chain{.name = "random", .input = Bytes(pick(shape.most_output)), .layers = {}};
  const std::int64_t extra = pick(shape.extra_per_output) * shape.most_output;
  for (int i = 1; i <= layers; ++i) {
    const std::int64_t x = pick(3) == 0 ? 0 : pick(shape.most_output);
    chain::LayerCost cost = layer(
        static_cast<double>(pick(shape.most_time)), static_cast<double>(pick(shape.most_time)), x,
        shape.lean_tapes ? pick(shape.most_output) : x + pick(shape.most_tape_beyond));
    cost.name = "layer" + std::to_string(i);
    cost.forward_transient = Bytes(pick(extra));
    cost.tape_transient = Bytes(pick(extra));
    cost.backward_transient = chain.output(i - 1) + Bytes(pick(extra));
    chain.layers.push_back(cost);
  }
  return chain;
}

inline chain::Chain random_chain(std::mt19937& random, const Shape& shape) {
  return random_chain(random, shape,
                      std::uniform_int_distribution<int>(1, shape.most_layers)(random));
}

/// The same chain where some of every second tape stays on the device.
inline chain::Chain with_what_stays(std::mt19937& random, chain::Chain chain) {
  for (chain::LayerCost& layer : chain.layers)
    if (random() % 2 == 0)
      layer.tape_stays =
          Bytes(std::uniform_int_distribution<std::int64_t>(0, layer.tape.count())(random));
  return chain;
}

/// What second forwards that end early save.
enum class Saves { kTime, kTimeAndBytes };

/// The same chain with retapes of three quarters of its layers.
inline chain::Chain with_retapes(std::mt19937& random, chain::Chain chain, Saves saves) {
  const auto up_to = [&](std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(0, most)(random);
  };
  for (chain::LayerCost& layer : chain.layers) {
    if (up_to(3) == 0) continue;
    layer.retape = layer.again();
    layer.retape->time =
        Seconds(static_cast<double>(up_to(static_cast<std::int64_t>(layer.forward.count()))));
    if (saves == Saves::kTime) continue;
    const Bytes less(up_to(std::min(layer.output, layer.tape).count()));
    layer.retape->tape -= less;
    layer.retape->backward_transient += less;  // what is freed at once is not held
  }
  return chain;
}

inline bool feasible(const Result& result) {
  return std::holds_alternative<Solution>(result);
}

/// The time of the result, or -1 if infeasible.
inline double time_of(const Result& result) {
  const auto* solution = std::get_if<Solution>(&result);
  return solution == nullptr ? -1 : solution->time.count();
}

}  // namespace trireme::solve
