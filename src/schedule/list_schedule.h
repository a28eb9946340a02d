// Orders by a list: every free rank begins the pass whose planned time is least.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "instance.h"

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

namespace trireme::schedule {

constexpr Ticks kNever = std::numeric_limits<Ticks>::max() / 4;

/// What a list schedule prefers.
struct Rule {
  /// By chunk and phase: planned begin of the first micro-batch's pass; each later one has `period`
  /// more. A W planned for kNever runs where nothing else can.
  std::vector<std::array<Ticks, kPhases>> planned;
  Ticks period = 0;
  /// By chunk: largest number of micro-batches between forward and backward.
  std::vector<int> most_in_flight;
  /// A W begins before its planned time where nothing else may and what is known to come next is
  /// farther away than this many percent of the W.
  int patience = 100;
  /// A forward or backward does not begin earlier than this before its planned time.
  Ticks early = kNever;
};

struct ListSchedule {
  Lists lists;
  Ticks step = 0;
};

/// Makes list schedules of one instance, on whose ranks one micro-batch must fit.
class ListScheduler {
 public:
  explicit ListScheduler(const Instance& instance);

  /// The order in which ranks that follow the rule begin their passes; no rank holds more than its
  /// room. Nothing where it takes longer than `limit`, or where ranks wait for room in a stream
  /// that several cuts of the chain share: with one cut a stream this does not happen, nor with one
  /// micro-batch in flight.
  std::optional<ListSchedule> run(const Rule& rule, Ticks limit = kNever);

 private:
  /// The passes of one phase of a chunk that have begun, and the next one.
  struct Queue {
    int next = 0;
    Ticks ready = 0;  ///< when what it waits for on other ranks is there
    Ticks planned = 0;
  };
  struct ChunkState {
    std::array<Queue, kPhases> queues;
  };
  struct RankState {
    Ticks free_at = 0;
    Ticks left = 0;             ///< time of passes still to run
    std::int64_t held = 0;      ///< bytes
    std::int64_t deferred = 0;  ///< those of them that W's give back
    Ticks wakes_at = 0;         ///< to begin what it may not begin earlier
  };
  struct Candidate {
    int chunk = -1;
    Phase phase = kForwardPhase;
    Ticks planned = kNever;
  };
  /// A message, by the pass that takes it.
  struct Sent {
    int taker = 0;
    bool is_taken = false;
  };
  using Event = std::pair<Ticks, int>;  ///< when a rank looks for a pass to begin

  void reset();
  void begin_one(int rank);
  Candidate best_of(int rank);
  Candidate deferred_of(int rank) const;
  bool may_begin(int chunk, Phase phase) const;
  bool is_safe(int chunk) const;
  std::pair<std::int64_t, std::int64_t> rest_of(int rank, int micro_batch, int forward_of) const;
  bool has_room(int stream) const;
  Ticks next_ready(int rank) const;
  void begin(int chunk, Phase phase);
  void take(int chunk, Phase phase, int micro_batch);
  /// The rank may have something to begin then.
  void look_at(int rank, Ticks time);
  void send(int chunk, Phase phase, int micro_batch);

  const Queue& queue(int chunk, Phase phase) const { return chunks_[at(chunk)].queues[phase]; }
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }

  const Instance& instance_;
  // Facts of the instance.
  std::vector<std::array<Ticks, kPhases>> home_;  ///< from a begin to the end of its micro-batch
  std::vector<Ticks> work_;                       ///< by rank
  std::vector<std::int64_t> whole_need_;          ///< by rank: of one micro-batch from its begin
  // State of a run.
  const Rule* rule_ = nullptr;
  Ticks now_ = 0, least_step_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<ChunkState> chunks_;
  std::vector<RankState> ranks_;
  std::vector<Ticks> ready_;             ///< by pass
  std::vector<std::vector<Sent>> sent_;  ///< by stream
  Lists lists_;
};

}  // namespace trireme::schedule
