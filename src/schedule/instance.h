// A workload as the search sees it: times in whole ticks, passes with numbers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/schedule/search.h"

#include <array>
#include <cstdint>
#include <vector>

namespace trireme::schedule {

/// Time in the search: whole numbers, whose sums do not depend on the machine.
using Ticks = std::int64_t;

/// Phases of a chunk's micro-batch.
enum Phase : int { kForwardPhase, kBackwardPhase, kWeightsPhase, kPhases };

/// A way between two ranks that holds few messages.
struct Stream {
  int from = 0, to = 0;
  bool is_of_gradients = false;
  int cuts = 0;  ///< places of the chain whose messages it carries
};

struct InstanceChunk {
  int rank = 0;
  std::array<Ticks, kPhases> time{};
  Ticks ahead = 0;
  Ticks message = 0;  ///< to the next chunk and back
  std::int64_t kept = 0, pending = 0, forward_more = 0, backward_more = 0;
  int outputs = -1, gradients = -1;  ///< stream that its forward or backward sends into; -1: none

  bool is_split() const { return time[kWeightsPhase] > 0; }
};

struct Instance {
  explicit Instance(const Workload& workload);

  int ranks = 0, micro_batches = 0, capacity = 0;
  int exponent = 0;  ///< a second has 2^exponent ticks
  std::vector<InstanceChunk> chunks;
  std::vector<std::vector<int>> chunks_of;  ///< by rank, in chain order
  std::vector<std::int64_t> room;           ///< by rank; the largest number where there is no limit
  std::vector<Stream> streams;

  int length() const { return static_cast<int>(chunks.size()); }
  const InstanceChunk& chunk(int number) const { return chunks[static_cast<std::size_t>(number)]; }

  Ticks ticks(Seconds time) const;
  /// Largest time that a rank computes for one micro-batch.
  Ticks period() const;
  /// Passes of all ranks.
  int passes() const;

  // Passes have numbers: (3 chunk + phase) micro_batches + micro-batch.
  int node(int chunk, Phase phase, int micro_batch) const {
    return (kPhases * chunk + phase) * micro_batches + micro_batch;
  }
  int nodes() const { return kPhases * length() * micro_batches; }
  int chunk_of(int node) const { return node / micro_batches / kPhases; }
  Phase phase_of(int node) const { return static_cast<Phase>(node / micro_batches % kPhases); }
  int micro_batch_of(int node) const { return node % micro_batches; }

  /// What `phase` of a chunk adds to what its rank holds.
  static std::int64_t change(const InstanceChunk& chunk, Phase phase);
  /// What it needs beside what was held before it.
  static std::int64_t need(const InstanceChunk& chunk, Phase phase);
};

/// Passes of every rank by number, in the order in which it runs them.
using Lists = std::vector<std::vector<int>>;

/// Whole backwards of chunks that are split are taken apart, and I and W of those that are not
/// joined; neither makes a rank hold more.
Lists to_lists(const Instance& instance, const Order& order);
Order to_order(const Instance& instance, const Lists& lists);

}  // namespace trireme::schedule
