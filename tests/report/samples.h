// Small plans to look at.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/chain/platform.h"
#include "trireme/plan/plan.h"
#include "trireme/program/generate.h"
#include "trireme/schedule/order.h"
#include "trireme/simulate/simulate.h"

#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace trireme::report {

inline chain::LayerCost layer(std::string name, double forward, double backward,
                              std::int64_t output, std::int64_t tape, std::int64_t transient) {
  chain::LayerCost cost;
  cost.name = std::move(name);
  cost.forward = Seconds(forward);
  cost.backward = Seconds(backward);
  cost.output = Bytes(output);
  cost.tape = Bytes(tape);
  cost.backward_transient = Bytes(transient);
  return cost;
}

/// Four layers and a loss; with 14 bytes, the best that keeps inputs of tapes runs layers 1 and 3
/// twice and takes 29 s (found by running the code of Beaumont et al. 2019).
inline chain::Chain four_layers() {
  return {
      .name = "four",
      .input = Bytes(1),
      .layers = {layer("a", 2, 3, 2, 4, 1), layer("b", 3, 5, 1, 3, 2), layer("c", 1, 2, 2, 5, 1),
                 layer("d", 4, 6, 1, 2, 2), layer("loss", 0, 0, 0, 0, 1)}};
}

inline program::StageProgram four_layers_in_14_bytes() {
  using program::Op;
  return {.first_layer = 1,
          .last_layer = 5,
          .forward = {{Op::kForwardKeep, 1},
                      {Op::kForwardTape, 2},
                      {Op::kForwardKeep, 3},
                      {Op::kForwardTape, 4},
                      {Op::kForwardTape, 5}},
          .backward = {{Op::kBackward, 5},
                       {Op::kBackward, 4},
                       {Op::kForwardTape, 3},
                       {Op::kBackward, 3},
                       {Op::kBackward, 2},
                       {Op::kForwardTape, 1},
                       {Op::kBackward, 1}}};
}

inline plan::Plan one_stage(const chain::Chain& chain, program::StageProgram program,
                            Bytes budget) {
  plan::Plan plan;
  plan.chain_name = chain.name;
  plan.solver = "by hand";
  plan.stages.push_back({.rank = 0,

                         .budget = budget,
                         .static_bytes = {},
                         .program = std::move(program),
                         .predicted = {}});
  return plan;
}

/// four_layers() in a V of two chunks on each of two ranks.
inline plan::Plan two_chunks_on_two_ranks() {
  plan::Plan plan;
  plan.chain_name = "four";
  plan.schedule = "searched";
  plan.micro_batches = 2;
  for (const auto& [rank, first, last] :
       {std::tuple(0, 1, 1), std::tuple(1, 2, 2), std::tuple(1, 3, 3), std::tuple(0, 4, 5)})
    plan.stages.push_back({.rank = rank, .program = program::keep_all(first, last)});
  plan::set_order(plan, {schedule::parse_passes("F0*2 (F3 B3)*2 B0*2", 12),
                         schedule::parse_passes("(F1 F2)*2 (B2 B1)*2", 12)});
  return plan;
}

/// Two equal layers of f = 1, b = 2 on a rank each.
inline chain::Chain two_layers() {
  return {.name = "two",
          .input = Bytes(1),
          .layers = {layer("first", 1, 2, 10, 20, 0), layer("second", 1, 2, 0, 20, 10)}};
}

inline plan::Plan two_stages(int micro_batches) {
  plan::Plan plan;
  plan.chain_name = "two";
  plan.micro_batches = micro_batches;
  for (int rank = 0; rank < 2; ++rank)
    plan.stages.push_back({.rank = rank,

                           .budget = {},
                           .static_bytes = {},
                           .program = program::keep_all(rank + 1, rank + 1),
                           .predicted = {}});
  return plan;
}

/// The step of one stage as if 40 bytes of state and 30 of weights and gradients had moved, with
/// copies of 4 s of which 1 s was waited for.
inline simulate::Simulation with_moves(simulate::Simulation step) {
  simulate::RankResult& rank = step.ranks.at(0);
  rank.state_moved = Bytes(40);
  rank.weights_moved = Bytes(30);
  rank.copies_out = Seconds(1);
  rank.copies_in = Seconds(3);
  rank.wait_for_copies = Seconds(1);
  rank.end += Seconds(1);
  step.step += Seconds(1);
  return step;
}

inline simulate::Simulation timeline(const plan::Plan& plan, const chain::Chain& chain,
                                     const chain::Platform& platform) {
  return simulate::simulate(plan::compile(plan), {.chain = &chain, .platform = &platform},
                            simulate::Detail::kTimeline);
}

}  // namespace trireme::report
