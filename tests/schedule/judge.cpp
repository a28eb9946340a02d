// SPDX-License-Identifier: Apache-2.0
#include "schedule/exhaustive.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace trireme::schedule {
namespace {

/// What a message is of: whether it is an output, the chunk that takes it, its micro-batch.
using Message = std::tuple<bool, int, int>;

/// Ranks that run their lists one pass at a time, whoever can.
class Run {
 public:
  Run(const Workload& workload, const Order& order) : workload_(workload), order_(order) {
    const auto ranks = static_cast<std::size_t>(ranks_of(workload.placement));
    next_.resize(ranks);
    free_.resize(ranks);
    held_.resize(ranks);
    counts_.resize(workload.placement.size());
    opener_.resize(ranks);
  }

  std::optional<Judgement> run() {
    bool goes_on = true;
    while (goes_on) {
      goes_on = false;
      for (std::size_t rank = 0; rank < order_.size(); ++rank)
        while (next_[rank] < order_[rank].size() && begin(rank)) goes_on = true;
    }
    for (std::size_t rank = 0; rank < order_.size(); ++rank)
      if (next_[rank] < order_[rank].size()) return std::nullopt;
    result_.step = *std::max_element(free_.begin(), free_.end());
    return result_;
  }

 private:
  struct Counts {
    int forwards = 0, backwards = 0;
  };

  bool begin(std::size_t rank) {
    const Pass pass = order_[rank][next_[rank]];
    const ChunkCosts& costs = workload_.chunks[static_cast<std::size_t>(pass.chunk)];
    Counts& counts = counts_[static_cast<std::size_t>(pass.chunk)];
    const int last = static_cast<int>(workload_.placement.size()) - 1;
    long begin = free_[rank];
    if (opener_[rank]) {
      if (!begins_.contains(*opener_[rank])) return false;
      begin = std::max(begin, begins_.at(*opener_[rank]));
    }
    const bool is_forward = pass.kind == Pass::Kind::kForward;
    const bool is_weights = pass.kind == Pass::Kind::kBackwardWeights;
    const Message taken{is_forward, pass.chunk, is_forward ? counts.forwards : counts.backwards};
    const bool takes = !is_weights && pass.chunk != (is_forward ? 0 : last);
    if (takes) {
      if (!arrivals_.contains(taken)) return false;
      begin = std::max(
          begin, arrivals_.at(taken) - (is_forward ? 0 : static_cast<long>(costs.ahead.count())));
    }
    ++next_[rank];
    opener_[rank].reset();
    if (takes) begins_[taken] = begin;
    hold(rank, pass.kind, costs);
    double time = (is_forward   ? costs.forward
                   : is_weights ? costs.weights
                                : costs.backward)
                      .count();
    if (pass.kind == Pass::Kind::kBackward) time += costs.weights.count();
    free_[rank] = begin + static_cast<long>(time);
    if (is_forward && pass.chunk < last) send(rank, true, pass.chunk + 1, counts.forwards);
    if (!is_weights && !is_forward && pass.chunk > 0)
      send(rank, false, pass.chunk - 1, counts.backwards);
    if (is_forward) ++counts.forwards;
    if (!is_forward && !is_weights) ++counts.backwards;
    return true;
  }

  void send(std::size_t rank, bool is_output, int to, int micro_batch) {
    const auto cut = static_cast<std::size_t>(is_output ? to - 1 : to);
    arrivals_[{is_output, to, micro_batch}] =
        free_[rank] + static_cast<long>(workload_.messages[cut].count());
    const int other = workload_.placement[static_cast<std::size_t>(to)];
    if (std::cmp_equal(other, rank)) return;
    std::vector<Message>& sent = sent_[{rank, other, is_output}];
    sent.emplace_back(is_output, to, micro_batch);
    if (std::cmp_greater(sent.size(), workload_.capacity))
      opener_[rank] = sent[sent.size() - 1 - static_cast<std::size_t>(workload_.capacity)];
  }

  void hold(std::size_t rank, Pass::Kind kind, const ChunkCosts& costs) {
    if (workload_.room.empty()) return;
    Bytes& held = held_[rank];
    const Bytes room = workload_.room[rank];
    if (kind == Pass::Kind::kForward) held += costs.kept;
    if (held > room) result_.fits = false;
    if (kind == Pass::Kind::kForward && held + costs.forward_more > room) result_.fits = false;
    if (is_backward(kind)) {
      if (held + costs.backward_more > room) result_.fits = false;
      held -= costs.kept;
    }
    if (kind == Pass::Kind::kBackwardInput) held += costs.pending;
    if (kind == Pass::Kind::kBackwardWeights) held -= costs.pending;
  }

  const Workload& workload_;
  const Order& order_;
  std::vector<std::size_t> next_;
  std::vector<long> free_;
  std::vector<Bytes> held_;
  std::vector<Counts> counts_;
  std::vector<std::optional<Message>> opener_;  // by rank: before it goes on
  std::map<Message, long> arrivals_, begins_;
  std::map<std::tuple<std::size_t, int, bool>, std::vector<Message>> sent_;
  Judgement result_;
};

}  // namespace

std::optional<Judgement> judge(const Workload& workload, const Order& order) {
  return Run(workload, order).run();
}

}  // namespace trireme::schedule
