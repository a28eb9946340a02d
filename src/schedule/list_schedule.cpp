// SPDX-License-Identifier: Apache-2.0
#include "list_schedule.h"

#include <algorithm>
#include <limits>
#include <queue>

namespace trireme::schedule {
namespace {

constexpr Ticks kNever = std::numeric_limits<Ticks>::max();

/// A pass that may be begun.
struct Candidate {
  int chunk = -1;
  Phase phase = kForwardPhase;
  Ticks planned = kNever;
};

/// A message of a stream: whether the pass that takes it has begun.
struct Sent {
  int taker = 0;
  bool is_taken = false;
};

class ListScheduler {
 public:
  ListScheduler(const Instance& instance, const Rule& rule);
  std::optional<Lists> run();

 private:
  using Counts = std::array<int, kPhases>;

  /// Begins passes of a rank that is free now; whether it began one.
  bool begin_one(int rank);
  Candidate best_of(int rank) const;
  /// The W that was deferred first, by planned time.
  Candidate waiting_weights(int rank) const;
  bool may_begin(int chunk, Phase phase) const;
  /// Whether all micro-batches that a rank holds can still end, oldest first, after this forward.
  bool is_safe(int chunk) const;
  /// What the rest of a micro-batch needs beside what it holds, and what it holds.
  std::pair<std::int64_t, std::int64_t> rest_of(int rank, int micro_batch, int forward_of) const;
  bool has_room_in_stream(int stream) const;
  /// Time at which the next pass of the rank is known to be ready.
  Ticks next_ready(int rank) const;
  void begin(int chunk, Phase phase);
  void send(int chunk, Phase phase, Ticks end);

  int next_of(int chunk, Phase phase) const { return counts_[at(chunk)][phase]; }
  Ticks ready(int chunk, Phase phase) const {
    const int micro_batch = next_of(chunk, phase);
    if (micro_batch == instance_.micro_batches) return kNever;
    return ready_[at(instance_.node(chunk, phase, micro_batch))];
  }
  Ticks planned(int chunk, Phase phase) const {
    return rule_.planned[at(chunk)][phase] + rule_.period * next_of(chunk, phase);
  }
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }

  const Instance& instance_;
  const Rule& rule_;
  Ticks now_ = 0;
  std::priority_queue<Ticks, std::vector<Ticks>, std::greater<>> events_;
  std::vector<Counts> counts_;  // passes begun, by chunk
  std::vector<Ticks> ready_;    // by node: when what it waits for on other ranks is there
  std::vector<Ticks> free_at_;  // by rank
  std::vector<std::int64_t> held_, deferred_;  // by rank: bytes, and those of them that W's give back
  std::vector<std::int64_t> whole_need_;       // by rank: of one micro-batch from its begin
  std::vector<std::vector<Sent>> sent_;        // by stream
  Lists lists_;
};

}  // namespace

std::optional<Lists> list_schedule(const Instance& instance, const Rule& rule) {
  return ListScheduler(instance, rule).run();
}

namespace {

ListScheduler::ListScheduler(const Instance& instance, const Rule& rule)
    : instance_(instance),
      rule_(rule),
      counts_(at(instance.length())),
      ready_(at(instance.nodes()), kNever),
      free_at_(at(instance.ranks)),
      held_(at(instance.ranks)),
      deferred_(at(instance.ranks)),
      sent_(instance.streams.size()),
      lists_(at(instance.ranks)) {
  for (int micro_batch = 0; micro_batch < instance.micro_batches; ++micro_batch)
    ready_[at(instance.node(0, kForwardPhase, micro_batch))] = 0;
  for (int rank = 0; rank < instance.ranks; ++rank)
    whole_need_.push_back(rest_of(rank, 0, -1).first);
}

std::optional<Lists> ListScheduler::run() {
  int left = instance_.passes();
  events_.push(0);
  while (left > 0 && !events_.empty()) {
    now_ = events_.top();
    while (!events_.empty() && events_.top() == now_) events_.pop();
    // A pass that begins may give room in a stream, so ranks are asked until none begins one.
    for (bool has_begun = true; has_begun;) {
      has_begun = false;
      for (int rank = 0; rank < instance_.ranks; ++rank) {
        if (free_at_[at(rank)] > now_ || !begin_one(rank)) continue;
        has_begun = true;
        --left;
      }
    }
  }
  if (left > 0) return std::nullopt;
  return std::move(lists_);
}

bool ListScheduler::begin_one(int rank) {
  const Candidate best = best_of(rank);
  const Candidate weights = waiting_weights(rank);
  if (best.chunk >= 0 && best.planned <= weights.planned) {
    begin(best.chunk, best.phase);
    return true;
  }
  if (weights.chunk < 0) return false;
  const Ticks time = instance_.chunk(weights.chunk).time[kWeightsPhase];
  const Ticks next = next_ready(rank);
  const bool is_overdue = best.chunk >= 0;
  // Where what is ready lacks memory or room, the W is all that the rank can do.
  const bool fills = next <= now_ || next - now_ >= time / 100 * rule_.patience;
  if (!is_overdue && !fills) return false;
  begin(weights.chunk, kWeightsPhase);
  return true;
}

Candidate ListScheduler::best_of(int rank) const {
  Candidate best;
  for (const int chunk : instance_.chunks_of[at(rank)]) {
    for (const Phase phase : {kForwardPhase, kBackwardPhase}) {
      if (ready(chunk, phase) > now_) continue;
      const Ticks time = planned(chunk, phase);
      if (time < best.planned && may_begin(chunk, phase)) best = {chunk, phase, time};
    }
  }
  return best;
}

Candidate ListScheduler::waiting_weights(int rank) const {
  Candidate first;
  for (const int chunk : instance_.chunks_of[at(rank)]) {
    if (!instance_.chunk(chunk).is_split() ||
        next_of(chunk, kWeightsPhase) == next_of(chunk, kBackwardPhase))
      continue;
    const Ticks time = planned(chunk, kWeightsPhase);
    if (first.chunk < 0 || time < first.planned) first = {chunk, kWeightsPhase, time};
  }
  return first;
}

bool ListScheduler::may_begin(int chunk, Phase phase) const {
  const InstanceChunk& costs = instance_.chunk(chunk);
  const std::int64_t room = instance_.room[at(costs.rank)];
  if (held_[at(costs.rank)] + Instance::need(costs, phase) > room) return false;
  if (phase == kBackwardPhase) return has_room_in_stream(costs.gradients);
  return next_of(chunk, kForwardPhase) - next_of(chunk, kBackwardPhase) <
             rule_.most_in_flight[at(chunk)] &&
         has_room_in_stream(costs.outputs) && is_safe(chunk);
}

bool ListScheduler::has_room_in_stream(int stream) const {
  if (stream < 0) return true;
  const std::vector<Sent>& sent = sent_[at(stream)];
  const int before = static_cast<int>(sent.size()) - instance_.capacity;
  return before < 0 || sent[at(before)].is_taken;
}

/// The banker's algorithm (Dijkstra 1965) with micro-batches as customers.
bool ListScheduler::is_safe(int chunk) const {
  const int rank = instance_.chunk(chunk).rank;
  std::int64_t free = instance_.room[at(rank)] - held_[at(rank)] + deferred_[at(rank)] -
                      instance_.chunk(chunk).kept;
  const int first = instance_.chunks_of[at(rank)].front();
  const int end = next_of(first, kForwardPhase) + (chunk == first ? 1 : 0);
  for (int micro_batch = next_of(first, kBackwardPhase); micro_batch < end; ++micro_batch) {
    if (free >= whole_need_[at(rank)]) return true;
    const auto [need, held] = rest_of(rank, micro_batch, chunk);
    if (need > free) return false;
    free += held;
  }
  return true;
}

std::pair<std::int64_t, std::int64_t> ListScheduler::rest_of(int rank, int micro_batch,
                                                             int forward_of) const {
  const std::vector<int>& mine = instance_.chunks_of[at(rank)];
  std::int64_t need = 0;
  std::int64_t held = 0;
  std::int64_t more = 0;  // beside what it holds now
  for (const int c : mine) {
    const InstanceChunk& costs = instance_.chunk(c);
    const int done = next_of(c, kForwardPhase) + (c == forward_of ? 1 : 0);
    if (micro_batch < next_of(c, kBackwardPhase)) continue;
    if (micro_batch < done) {
      held += costs.kept;
    } else {
      need = std::max(need, more + costs.kept + costs.forward_more);
      more += costs.kept;
    }
  }
  for (std::size_t i = mine.size(); i-- > 0;) {
    if (micro_batch < next_of(mine[i], kBackwardPhase)) continue;
    need = std::max(need, more + instance_.chunk(mine[i]).backward_more);
    more -= instance_.chunk(mine[i]).kept;
  }
  return {need, held};
}

Ticks ListScheduler::next_ready(int rank) const {
  Ticks next = kNever;
  for (const int chunk : instance_.chunks_of[at(rank)])
    for (const Phase phase : {kForwardPhase, kBackwardPhase})
      if (const Ticks time = ready(chunk, phase); time > now_) next = std::min(next, time);
  return next;
}

void ListScheduler::begin(int chunk, Phase phase) {
  const InstanceChunk& costs = instance_.chunk(chunk);
  const int micro_batch = counts_[at(chunk)][phase]++;
  lists_[at(costs.rank)].push_back(instance_.node(chunk, phase, micro_batch));
  held_[at(costs.rank)] += Instance::change(costs, phase);
  if (phase == kBackwardPhase) deferred_[at(costs.rank)] += costs.pending;
  if (phase == kWeightsPhase) deferred_[at(costs.rank)] -= costs.pending;
  const Ticks end = now_ + costs.time[phase];
  free_at_[at(costs.rank)] = end;
  events_.push(end);
  if (phase != kWeightsPhase) send(chunk, phase, end);
}

void ListScheduler::send(int chunk, Phase phase, Ticks end) {
  const InstanceChunk& costs = instance_.chunk(chunk);
  const bool is_forward = phase == kForwardPhase;
  const int micro_batch = next_of(chunk, phase) - 1;
  const int node = instance_.node(chunk, phase, micro_batch);
  // It takes the message that its neighbour sent into a stream.
  const int before = is_forward ? chunk - 1 : chunk + 1;
  if (before >= 0 && before < instance_.length()) {
    const InstanceChunk& sender = instance_.chunk(before);
    const int stream = is_forward ? sender.outputs : sender.gradients;
    if (stream >= 0)
      for (std::size_t i = sent_[at(stream)].size(); i-- > 0;)
        if (sent_[at(stream)][i].taker == node) {
          sent_[at(stream)][i].is_taken = true;
          break;
        }
  }
  if (is_forward && chunk + 1 == instance_.length()) {
    ready_[at(instance_.node(chunk, kBackwardPhase, micro_batch))] = end;
    return;
  }
  const int next = is_forward ? chunk + 1 : chunk - 1;
  if (next < 0) return;
  const InstanceChunk& taker = instance_.chunk(next);
  const Ticks arrival = end + (is_forward ? costs.message : taker.message - taker.ahead);
  const int taking = instance_.node(next, phase, micro_batch);
  ready_[at(taking)] = arrival;
  events_.push(std::max(arrival, now_));
  const int stream = is_forward ? costs.outputs : costs.gradients;
  if (stream >= 0) sent_[at(stream)].push_back({taking, false});
}

}  // namespace
}  // namespace trireme::schedule
