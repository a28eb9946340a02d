// Small pipelines and their simulations.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "simulate/random_programs.h"

#include "trireme/core/text.h"
#include "trireme/program/weights.h"
#include "trireme/schedule/named.h"
#include "trireme/simulate/simulate.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace trireme::simulate {

using program::Op;
using program::Program;

inline chain::Platform free_platform(int ranks) {
  chain::Platform platform;
  platform.ranks.resize(static_cast<std::size_t>(ranks));
  return platform;
}

inline Simulation run(const Program& program, const chain::Chain& chain,
                      const chain::Platform& platform, Detail detail = Detail::kSummary,
                      int capacity = 2) {
  Simulation result = simulate(program, {&chain, &platform, {}, capacity}, detail);
  EXPECT_EQ(result.fault ? to_text(*result.fault) : "", "");
  return result;
}

/// On every rank, compute and waits add up to the end of its last action.
inline void expect_all_time_is_told(const Simulation& simulation) {
  for (const RankResult& rank : simulation.ranks)
    EXPECT_NEAR((rank.busy + rank.wait_for_ranks + rank.wait_for_copies).count(), rank.end.count(),
                1e-9 * rank.end.count());
}

/// The program with the moves of the weights that the setting streams.
inline Program with_weights(const Program& program, const Setting& setting) {
  return program::with_weights(
      program,
      program::streaming_of(setting.streamed, setting.weights_at_once, setting.replicas > 1));
}

/// Stage k of one layer each, kept.
inline Program one_layer_each(int stages, schedule::Order order) {
  program::Lowering lowering;
  for (int k = 1; k <= stages; ++k) lowering.stages.push_back(program::keep_all(k, k));
  lowering.order = std::move(order);
  return program::lower(lowering);
}

/// "F0 0-1, B0 8-10" of one rank's compute lane (or of another lane).
inline std::string timeline(const Simulation& simulation, int rank, Lane lane = Lane::kCompute) {
  std::vector<std::string> pieces;
  for (const Event& event : simulation.events) {
    if (event.rank != rank || event.lane != lane) continue;
    pieces.push_back(
        concat(event.action.op == Op::kBackward || event.action.op == Op::kSendGradient ? "B" : "F",
               event.action.micro_batch, " ", event.begin.count(), "-", event.end.count()));
  }
  return join(pieces, ", ");
}

/// Stage 0: forward 1, backward 2; stage 1: forward 3, backward 4; ten bytes between them.
inline chain::Chain uneven() {
  return chain_of(10, {{1, 2, 10, 10}, {3, 4, 10, 10}});
}

}  // namespace trireme::simulate
