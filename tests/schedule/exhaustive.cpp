// SPDX-License-Identifier: Apache-2.0
#include "schedule/exhaustive.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>

namespace trireme::schedule {
namespace {

enum : std::size_t { kF, kB, kW };

long whole(Seconds time) {
  return static_cast<long>(time.count());
}

/// A partial schedule: what every chunk has begun, and the times that still matter. A pass is
/// (3 chunk + kind) micro_batches + micro-batch.
struct Partial {
  std::vector<std::array<int, 3>> begun;  // by chunk
  std::vector<int> opener;                // by rank: the pass that must begin before it goes on; -1
  std::vector<std::vector<int>> sent;     // by stream: who takes its messages, the last few
  std::vector<long> free;                 // by rank
  std::vector<long> ready;                // by pass: arrival, until it begins
  std::vector<long> begins;               // by pass: while a stream may need it

  /// What is alike in partial schedules of which one may be better in all times.
  std::string key() const {
    std::string text;
    for (const auto& counts : begun)
      for (const int count : counts) text += static_cast<char>('a' + count);
    for (const int pass : opener) text += std::to_string(pass) + ",";
    for (const auto& stream : sent) {
      text += ";";
      for (const int pass : stream) text += std::to_string(pass) + ",";
    }
    return text;
  }

  bool no_later(const Partial& other) const {
    const auto all = [](const std::vector<long>& a, const std::vector<long>& b) {
      return std::equal(a.begin(), a.end(), b.begin(), std::less_equal<>());
    };
    return all(free, other.free) && all(ready, other.ready) && all(begins, other.begins);
  }
};

class Trials {
 public:
  Trials(const Workload& workload, long limit);
  std::optional<long> run();

 private:
  void extend(const Partial& partial, std::size_t chunk, std::size_t kind);
  bool may_come(const Partial& partial, std::size_t chunk, std::size_t kind) const;
  bool fits(const Partial& partial, std::size_t chunk, std::size_t kind) const;
  void send(Partial& partial, std::size_t rank, std::size_t to, int pass, long arrival);
  void forget(Partial& partial) const;
  long least_end(const Partial& partial) const;
  void keep(Partial partial);

  int pass_of(std::size_t chunk, std::size_t kind, int micro_batch) const {
    return static_cast<int>(3 * chunk + kind) * workload_.micro_batches + micro_batch;
  }
  long time(std::size_t chunk, std::size_t kind) const {
    const ChunkCosts& costs = workload_.chunks[chunk];
    return whole(kind == kF ? costs.forward : kind == kB ? costs.backward : costs.weights);
  }
  bool is_split(std::size_t chunk) const { return workload_.chunks[chunk].weights > Seconds(0); }
  std::size_t rank_of(std::size_t chunk) const {
    return static_cast<std::size_t>(workload_.placement[chunk]);
  }
  std::size_t stream_of(std::size_t from, std::size_t to, std::size_t kind) const {
    return (from * ranks_ + to) * 2 + kind;
  }

  const Workload& workload_;
  long limit_;
  std::size_t ranks_, chunks_;
  std::map<std::string, std::vector<Partial>> next_;
};

}  // namespace

std::optional<long> least_step(const Workload& workload, long limit) {
  return Trials(workload, limit).run();
}

namespace {

Trials::Trials(const Workload& workload, long limit)
    : workload_(workload),
      limit_(limit),
      ranks_(static_cast<std::size_t>(ranks_of(workload.placement))),
      chunks_(workload.placement.size()) {}

std::optional<long> Trials::run() {
  const std::size_t passes = 3 * chunks_ * static_cast<std::size_t>(workload_.micro_batches);
  Partial empty;
  empty.begun.resize(chunks_);
  empty.opener.assign(ranks_, -1);
  empty.sent.resize(ranks_ * ranks_ * 2);
  empty.free.resize(ranks_);
  empty.ready.resize(passes);
  empty.begins.resize(passes);
  std::vector<Partial> now{empty};
  std::size_t left = 0;
  for (std::size_t chunk = 0; chunk < chunks_; ++chunk)
    left += static_cast<std::size_t>(workload_.micro_batches) * (is_split(chunk) ? 3 : 2);
  for (; left > 0; --left) {
    next_.clear();
    for (const Partial& partial : now)
      for (std::size_t chunk = 0; chunk < chunks_; ++chunk)
        for (const std::size_t kind : {kF, kB, kW})
          if (may_come(partial, chunk, kind) && fits(partial, chunk, kind))
            extend(partial, chunk, kind);
    now.clear();
    for (auto& [key, partials] : next_)
      std::move(partials.begin(), partials.end(), std::back_inserter(now));
  }
  std::optional<long> best;
  for (const Partial& partial : now) {
    const long step = *std::max_element(partial.free.begin(), partial.free.end());
    if (!best || step < *best) best = step;
  }
  return best;
}

/// Whether all that a pass waits for has begun, so that its own begin is known.
bool Trials::may_come(const Partial& partial, std::size_t chunk, std::size_t kind) const {
  const auto& begun = partial.begun[chunk];
  const int micro_batch = begun[kind];
  if (partial.opener[rank_of(chunk)] >= 0 || micro_batch == workload_.micro_batches) return false;
  if (kind == kF) return chunk == 0 || partial.begun[chunk - 1][kF] > micro_batch;
  if (kind == kW) return is_split(chunk) && begun[kB] > micro_batch;
  return begun[kF] > micro_batch &&
         (chunk + 1 == chunks_ || partial.begun[chunk + 1][kB] > micro_batch);
}

bool Trials::fits(const Partial& partial, std::size_t chunk, std::size_t kind) const {
  if (workload_.room.empty()) return true;
  Bytes held;
  for (std::size_t other = 0; other < chunks_; ++other) {
    if (rank_of(other) != rank_of(chunk)) continue;
    const auto& begun = partial.begun[other];
    held += workload_.chunks[other].kept * (begun[kF] - begun[kB]);
    if (is_split(other)) held += workload_.chunks[other].pending * (begun[kB] - begun[kW]);
  }
  const ChunkCosts& costs = workload_.chunks[chunk];
  if (kind == kF) held += costs.kept + costs.forward_more;
  if (kind == kB) held += costs.backward_more;
  return held <= workload_.room[rank_of(chunk)];
}

void Trials::extend(const Partial& partial, std::size_t chunk, std::size_t kind) {
  Partial more = partial;
  const std::size_t rank = rank_of(chunk);
  const int micro_batch = more.begun[chunk][kind]++;
  const int pass = pass_of(chunk, kind, micro_batch);
  const long begin = std::max(more.free[rank], more.ready[static_cast<std::size_t>(pass)]);
  const long end = begin + time(chunk, kind);
  more.free[rank] = end;
  more.ready[static_cast<std::size_t>(pass)] = 0;
  more.begins[static_cast<std::size_t>(pass)] = begin;
  // Ranks that waited for it go on.
  for (std::size_t other = 0; other < ranks_; ++other) {
    if (more.opener[other] != pass) continue;
    more.opener[other] = -1;
    more.free[other] = std::max(more.free[other], begin);
  }
  if (kind == kF && chunk + 1 < chunks_)
    send(more, rank, rank_of(chunk + 1), pass_of(chunk + 1, kF, micro_batch),
         end + whole(workload_.messages[chunk]));
  if (kind == kB && chunk > 0)
    send(more, rank, rank_of(chunk - 1), pass_of(chunk - 1, kB, micro_batch),
         end + whole(workload_.messages[chunk - 1] - workload_.chunks[chunk - 1].ahead));
  keep(std::move(more));
}

void Trials::send(Partial& partial, std::size_t rank, std::size_t to, int pass, long arrival) {
  partial.ready[static_cast<std::size_t>(pass)] = std::max(0L, arrival);
  if (rank == to) return;
  const std::size_t kind = static_cast<std::size_t>(pass / workload_.micro_batches) % 3;
  std::vector<int>& sent = partial.sent[stream_of(rank, to, kind)];
  sent.push_back(pass);
  if (std::cmp_less_equal(sent.size(), workload_.capacity)) return;
  const int taker = sent.front();
  sent.erase(sent.begin());
  const auto chunk = static_cast<std::size_t>(taker / workload_.micro_batches / 3);
  if (partial.begun[chunk][kind] > taker % workload_.micro_batches)
    partial.free[rank] =
        std::max(partial.free[rank], partial.begins[static_cast<std::size_t>(taker)]);
  else
    partial.opener[rank] = taker;
}

/// Sets times to 0 that no pass to come depends on.
void Trials::forget(Partial& partial) const {
  std::vector<bool> matters(partial.begins.size());
  for (const auto& stream : partial.sent)
    for (const int pass : stream) matters[static_cast<std::size_t>(pass)] = true;
  for (std::size_t pass = 0; pass < matters.size(); ++pass)
    if (!matters[pass]) partial.begins[pass] = 0;
}

void Trials::keep(Partial partial) {
  forget(partial);
  if (least_end(partial) >= limit_) return;
  std::vector<Partial>& alike = next_[partial.key()];
  for (const Partial& other : alike)
    if (other.no_later(partial)) return;
  std::erase_if(alike, [&](const Partial& other) { return partial.no_later(other); });
  alike.push_back(std::move(partial));
}

/// No schedule that goes on from here ends earlier: a rank has its passes still to run, and every
/// forward and backward its way home.
long Trials::least_end(const Partial& partial) const {
  long most = 0;
  std::vector<long> work = partial.free;
  std::vector<long> home(chunks_);
  for (std::size_t chunk = 0; chunk < chunks_; ++chunk) {
    for (const std::size_t kind : {kF, kB, kW})
      work[rank_of(chunk)] +=
          (workload_.micro_batches - partial.begun[chunk][kind]) * time(chunk, kind);
    home[chunk] = time(chunk, kB) + time(chunk, kW);
    if (chunk > 0)
      home[chunk] = std::max(home[chunk], time(chunk, kB) + home[chunk - 1] +
                                              whole(workload_.messages[chunk - 1] -
                                                    workload_.chunks[chunk - 1].ahead));
    for (int i = partial.begun[chunk][kB]; i < workload_.micro_batches; ++i)
      if (partial.begun[chunk][kF] > i)
        most = std::max(
            most, partial.ready[static_cast<std::size_t>(pass_of(chunk, kB, i))] + home[chunk]);
  }
  long way = 0;
  for (std::size_t chunk = chunks_; chunk-- > 0;) {
    if (chunk + 1 < chunks_) way += whole(workload_.messages[chunk]);
    if (chunk + 1 == chunks_) way = home[chunk];
    way += time(chunk, kF);
    const int next = partial.begun[chunk][kF];
    if (next < workload_.micro_batches)
      most = std::max(most,
                      std::max(partial.free[rank_of(chunk)],
                               partial.ready[static_cast<std::size_t>(pass_of(chunk, kF, next))]) +
                          way);
  }
  return std::max(most, *std::max_element(work.begin(), work.end()));
}

}  // namespace
}  // namespace trireme::schedule
