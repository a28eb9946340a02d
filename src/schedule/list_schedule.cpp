// SPDX-License-Identifier: Apache-2.0
#include "list_schedule.h"

#include <algorithm>

namespace trireme::schedule {

ListScheduler::ListScheduler(const Instance& instance)
    : instance_(instance), home_(instance.chunks.size()), chunks_(instance.chunks.size()) {
  for (int c = 0; c < instance.length(); ++c) {
    const InstanceChunk& chunk = instance.chunk(c);
    auto& home = home_[at(c)];
    home[kWeightsPhase] = chunk.time[kWeightsPhase];
    home[kBackwardPhase] = chunk.time[kBackwardPhase] + chunk.time[kWeightsPhase];
    if (c == 0) continue;
    const InstanceChunk& before = instance.chunk(c - 1);
    home[kBackwardPhase] =
        std::max(home[kBackwardPhase], chunk.time[kBackwardPhase] + before.message - before.ahead +
                                           home_[at(c - 1)][kBackwardPhase]);
  }
  Ticks after = home_.back()[kBackwardPhase];
  for (int c = instance.length(); c-- > 0;) {
    after += instance.chunk(c).time[kForwardPhase];
    home_[at(c)][kForwardPhase] = after;
    if (c > 0) after += instance.chunk(c - 1).message;
  }
  for (int rank = 0; rank < instance.ranks; ++rank) {
    Ticks work = 0;
    for (const int c : instance.chunks_of[at(rank)])
      for (const Ticks time : instance.chunk(c).time) work += time * instance.micro_batches;
    work_.push_back(work);
    whole_need_.push_back(rest_of(rank, 0, -1).first);
  }
}

std::optional<ListSchedule> ListScheduler::run(const Rule& rule, Ticks limit) {
  rule_ = &rule;
  reset();
  while (!events_.empty() && least_step_ <= limit) {
    const auto [time, rank] = events_.top();
    while (!events_.empty() && events_.top() == Event(time, rank)) events_.pop();
    now_ = time;
    if (ranks_[at(rank)].free_at <= now_) begin_one(rank);
  }
  if (least_step_ > limit) return std::nullopt;
  ListSchedule made;
  for (const RankState& rank : ranks_) {
    if (rank.left > 0) return std::nullopt;
    made.step = std::max(made.step, rank.free_at);
  }
  made.lists = lists_;
  return made;
}

void ListScheduler::reset() {
  now_ = least_step_ = 0;
  events_ = {};
  ready_.assign(at(instance_.nodes()), kNever);
  for (int c = 0; c < instance_.length(); ++c)
    for (const Phase phase : {kForwardPhase, kBackwardPhase, kWeightsPhase})
      chunks_[at(c)].queues[phase] = {0, kNever, rule_->planned[at(c)][phase]};
  for (int i = 0; i < instance_.micro_batches; ++i)
    ready_[at(instance_.node(0, kForwardPhase, i))] = 0;
  chunks_[0].queues[kForwardPhase].ready = 0;
  ranks_.assign(at(instance_.ranks), {});
  lists_.assign(at(instance_.ranks), {});
  sent_.assign(instance_.streams.size(), {});
  for (int rank = 0; rank < instance_.ranks; ++rank) ranks_[at(rank)].left = work_[at(rank)];
  look_at(instance_.chunk(0).rank, 0);
}

/// Begins a pass on a rank that is free now, if one may and it is better than to wait.
void ListScheduler::begin_one(int rank) {
  const Candidate best = best_of(rank);
  const Candidate weights = deferred_of(rank);
  if (best.chunk >= 0 && (weights.chunk < 0 || best.planned <= weights.planned))
    return begin(best.chunk, best.phase);
  if (weights.chunk < 0) return;
  const Ticks time = instance_.chunk(weights.chunk).time[kWeightsPhase];
  const bool is_overdue = best.chunk >= 0;
  if (is_overdue || next_ready(rank) - now_ >= time / 100 * rule_->patience)
    begin(weights.chunk, kWeightsPhase);
}

ListScheduler::Candidate ListScheduler::best_of(int rank) {
  Candidate best;
  const Ticks latest = now_ + rule_->early;
  Ticks wake = kNever;
  for (const int chunk : instance_.chunks_of[at(rank)]) {
    for (const Phase phase : {kForwardPhase, kBackwardPhase}) {
      const Queue& one = queue(chunk, phase);
      if (one.ready > now_ || one.planned >= best.planned) continue;
      if (one.planned > latest)
        wake = std::min(wake, one.planned - rule_->early);
      else if (may_begin(chunk, phase))
        best = {chunk, phase, one.planned};
    }
  }
  if (wake < kNever && wake != ranks_[at(rank)].wakes_at) {
    ranks_[at(rank)].wakes_at = wake;
    look_at(rank, wake);
  }
  return best;
}

/// The W that is planned first of those that have been deferred.
ListScheduler::Candidate ListScheduler::deferred_of(int rank) const {
  Candidate first;
  for (const int chunk : instance_.chunks_of[at(rank)]) {
    const Queue& one = queue(chunk, kWeightsPhase);
    if (!instance_.chunk(chunk).is_split() || one.next == queue(chunk, kBackwardPhase).next)
      continue;
    if (first.chunk < 0 || one.planned < first.planned) first = {chunk, kWeightsPhase, one.planned};
  }
  return first;
}

bool ListScheduler::may_begin(int chunk, Phase phase) const {
  const InstanceChunk& costs = instance_.chunk(chunk);
  if (ranks_[at(costs.rank)].held + Instance::need(costs, phase) > instance_.room[at(costs.rank)])
    return false;
  if (phase == kBackwardPhase) return has_room(costs.gradients);
  return queue(chunk, kForwardPhase).next - queue(chunk, kBackwardPhase).next <
             rule_->most_in_flight[at(chunk)] &&
         has_room(costs.outputs) && is_safe(chunk);
}

bool ListScheduler::has_room(int stream) const {
  if (stream < 0) return true;
  const std::vector<Sent>& sent = sent_[at(stream)];
  const int before = static_cast<int>(sent.size()) - instance_.capacity;
  return before < 0 || sent[at(before)].is_taken;
}

/// Whether all micro-batches that a rank holds can still end, oldest first, after a forward: the
/// banker's algorithm (Dijkstra 1965).
bool ListScheduler::is_safe(int chunk) const {
  const int rank = instance_.chunk(chunk).rank;
  const RankState& state = ranks_[at(rank)];
  std::int64_t free =
      instance_.room[at(rank)] - state.held + state.deferred - instance_.chunk(chunk).kept;
  const int first = instance_.chunks_of[at(rank)].front();
  const int end = queue(first, kForwardPhase).next + (chunk == first ? 1 : 0);
  for (int i = queue(first, kBackwardPhase).next; i < end; ++i) {
    if (free >= whole_need_[at(rank)]) return true;
    const auto [need, held] = rest_of(rank, i, chunk);
    if (need > free) return false;
    free += held;
  }
  return true;
}

/// What the rest of a micro-batch needs beside what it holds, and what it holds.
std::pair<std::int64_t, std::int64_t> ListScheduler::rest_of(int rank, int micro_batch,
                                                             int forward_of) const {
  const std::vector<int>& mine = instance_.chunks_of[at(rank)];
  std::int64_t need = 0;
  std::int64_t held = 0;
  std::int64_t more = 0;  // beside what it holds now
  for (const int c : mine) {
    const InstanceChunk& costs = instance_.chunk(c);
    if (micro_batch < queue(c, kBackwardPhase).next) continue;
    if (micro_batch < queue(c, kForwardPhase).next + (c == forward_of ? 1 : 0)) {
      held += costs.kept;
    } else {
      need = std::max(need, more + costs.kept + costs.forward_more);
      more += costs.kept;
    }
  }
  for (std::size_t i = mine.size(); i-- > 0;) {
    if (micro_batch < queue(mine[i], kBackwardPhase).next) continue;
    need = std::max(need, more + instance_.chunk(mine[i]).backward_more);
    more -= instance_.chunk(mine[i]).kept;
  }
  return {need, held};
}

/// When a pass is known to become ready.
Ticks ListScheduler::next_ready(int rank) const {
  Ticks next = kNever;
  for (const int chunk : instance_.chunks_of[at(rank)])
    for (const Phase phase : {kForwardPhase, kBackwardPhase})
      if (const Ticks ready =
              std::max(queue(chunk, phase).ready, queue(chunk, phase).planned - rule_->early);
          ready > now_)
        next = std::min(next, ready);
  return next;
}

void ListScheduler::begin(int chunk, Phase phase) {
  const InstanceChunk& costs = instance_.chunk(chunk);
  RankState& rank = ranks_[at(costs.rank)];
  Queue& one = chunks_[at(chunk)].queues[phase];
  const int micro_batch = one.next++;
  one.planned += rule_->period;
  one.ready = one.next < instance_.micro_batches
                  ? ready_[at(instance_.node(chunk, phase, one.next))]
                  : kNever;
  lists_[at(costs.rank)].push_back(instance_.node(chunk, phase, micro_batch));
  rank.held += Instance::change(costs, phase);
  if (phase == kBackwardPhase) rank.deferred += costs.pending;
  if (phase == kWeightsPhase) rank.deferred -= costs.pending;
  least_step_ = std::max({least_step_, now_ + rank.left, now_ + home_[at(chunk)][phase]});
  rank.left -= costs.time[phase];
  rank.free_at = now_ + costs.time[phase];
  look_at(costs.rank, rank.free_at);
  if (phase == kWeightsPhase) return;
  take(chunk, phase, micro_batch);
  send(chunk, phase, micro_batch);
}

/// Makes room in the stream that a pass takes its message from.
void ListScheduler::take(int chunk, Phase phase, int micro_batch) {
  const int before = phase == kForwardPhase ? chunk - 1 : chunk + 1;
  if (before < 0 || before >= instance_.length()) return;
  const InstanceChunk& sender = instance_.chunk(before);
  const int stream = phase == kForwardPhase ? sender.outputs : sender.gradients;
  if (stream < 0) return;
  const int taker = instance_.node(chunk, phase, micro_batch);
  std::vector<Sent>& sent = sent_[at(stream)];
  std::size_t i = sent.size() - 1;
  while (sent[i].taker != taker) --i;
  sent[i].is_taken = true;
  look_at(sender.rank, now_);
}

/// A rank that is busy then looks at the end of its pass in any case.
void ListScheduler::look_at(int rank, Ticks time) {
  if (time >= ranks_[at(rank)].free_at) events_.emplace(time, rank);
}

void ListScheduler::send(int chunk, Phase phase, int micro_batch) {
  const bool turns = phase == kForwardPhase && chunk + 1 == instance_.length();
  const Phase other = turns ? kBackwardPhase : phase;
  const int next = turns ? chunk : phase == kForwardPhase ? chunk + 1 : chunk - 1;
  if (next < 0) return;
  const InstanceChunk& costs = instance_.chunk(chunk);
  const InstanceChunk& taker = instance_.chunk(next);
  Ticks ready = now_ + costs.time[phase];
  if (!turns) ready += phase == kForwardPhase ? costs.message : taker.message - taker.ahead;
  const int pass = instance_.node(next, other, micro_batch);
  ready_[at(pass)] = ready;
  Queue& waiting = chunks_[at(next)].queues[other];
  if (waiting.next == micro_batch) waiting.ready = ready;
  look_at(taker.rank, std::max(now_, ready));
  const int stream = phase == kForwardPhase ? costs.outputs : costs.gradients;
  if (stream >= 0 && !turns) sent_[at(stream)].push_back({pass, false});
}

}  // namespace trireme::schedule
