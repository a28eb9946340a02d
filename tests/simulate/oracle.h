// A second, slow implementation of the memory model: sets of named values, queues, everything
// summed afresh after every action. Shares no code with the ledger or the engine.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/program/action.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace trireme::simulate {

class Oracle {
 public:
  Oracle(const chain::Chain& chain, const program::Program& program, std::size_t capacity)
      : chain_(chain), program_(program), capacity_(capacity), ranks_(program.ranks.size()) {
    for (const auto& actions : program.ranks) {
      for (const auto& action : actions) trains_ = trains_ || is_backward(action.op);
    }
  }

  /// Whether every rank gets to its end and nothing is left over, missing or done twice.
  bool legal() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        if (ranks_[rank].next == program_.ranks[rank].size()) continue;
        const Action& action = program_.ranks[rank][ranks_[rank].next];
        if (must_wait(static_cast<int>(rank), action)) continue;
        if (!act(static_cast<int>(rank), action)) return false;
        ++ranks_[rank].next;
        moved = true;
      }
    }
    return complete();
  }

  /// Most bytes of a rank, with all copies instant.
  std::int64_t peak(std::size_t rank) const { return ranks_[rank].peak; }

 private:
  using Action = program::Action;
  using Op = program::Op;
  using Name = std::tuple<char, int, int>;  // x, T, g, t (target), P (pending); X, Y: offloaded
                                            // output, tape; B: bare

  struct RankMemory {
    std::size_t next = 0;
    std::multiset<Name> values;
    std::int64_t peak = 0;
  };

  int home(int layer) const { return program_.rank_of_layer[static_cast<std::size_t>(layer)]; }

  static bool sends(Op op) { return op == Op::kSendOutput || op == Op::kSendGradient; }
  static bool receives(Op op) { return op == Op::kReceiveInput || op == Op::kReceiveGradient; }

  /// (from, to, kind) of a transfer; an impossible one has no partner.
  std::tuple<int, int, char> stream(const Action& a) const {
    const int below = home(a.layer);
    const int above = home(a.layer + 1);
    const bool output = a.op == Op::kSendOutput || a.op == Op::kReceiveInput;
    return output ? std::tuple(below, above, 'x') : std::tuple(above, below, 'g');
  }

  /// What is in transit on a stream whose bytes are offloaded must have a posted receive: for a
  /// layer that its receiver has not had yet, none is posted ahead.
  bool must_wait(int rank, const Action& a) {
    const bool leaves = a.op == Op::kOffload || a.op == Op::kOffloadTape;
    if (leaves && a.layer >= 1 && a.layer < program_.layers && home(a.layer) == rank &&
        home(a.layer + 1) != rank) {
      const auto outputs = std::tuple(rank, home(a.layer + 1), 'x');
      const auto& queue = queues_[outputs];
      return queue.size() >= capacity_ ||
             std::any_of(queue.begin(), queue.end(), [&](const auto& sent) {
               return !known_.contains({outputs, std::get<0>(sent)});
             });
    }
    if (sends(a.op)) return queues_[stream(a)].size() >= capacity_;
    if (receives(a.op)) return queues_[stream(a)].empty();
    return false;
  }

  std::int64_t size(const Name& name) const {
    const auto [kind, i, m] = name;
    if (kind == 'T') return chain_.layer(i).tape.count();
    if (kind == 'Y') return chain_.layer(i).tape_stays.count();
    if (kind == 'B') return chain_.layer(i).retape->tape.count();
    if (kind == 'P') return chain_.layer(i).split->pending.count();
    if (kind == 'x' || kind == 'g') return chain_.output(i).count();
    return 0;
  }
  std::int64_t held(const RankMemory& memory) const {
    std::int64_t sum = 0;
    for (const Name& name : memory.values) sum += size(name);
    return sum;
  }

  bool act(int rank, const Action& a) {
    RankMemory& memory = ranks_[static_cast<std::size_t>(rank)];
    const int i = a.layer;
    const int m = a.micro_batch;
    const bool last = i == program_.layers;
    const std::int64_t before = held(memory);
    std::int64_t at_work = 0;
    const auto has = [&](char kind, int layer) { return memory.values.contains({kind, layer, m}); };
    const auto readable = [&](int layer) { return has('x', layer) || has('T', layer); };
    const auto add = [&](char kind, int layer) { memory.values.insert({kind, layer, m}); };
    const auto remove = [&](char kind, int layer) {
      return memory.values.erase({kind, layer, m}) > 0;
    };
    switch (a.op) {
      case Op::kForward:
      case Op::kForwardKeep:
      case Op::kForwardTape: {
        if (home(i) != rank || !readable(i - 1) || readable(i) || has('X', i) || has('B', i))
          return false;
        if (last && !has('t', i)) return false;
        const bool taped = a.op == Op::kForwardTape;
        if (taped && has('Y', i)) return false;
        add(taped ? 'T' : 'x', i);
        at_work =
            held(memory) +
            (taped ? chain_.layer(i).tape_transient : chain_.layer(i).forward_transient).count();
        if (a.op == Op::kForward) remove('x', i - 1);
        forwards_.insert({i, m});
        break;
      }
      case Op::kRetape:
        if (home(i) != rank || !readable(i - 1) || readable(i)) return false;
        if (has('X', i) || has('Y', i) || has('B', i) || (last && !has('t', i))) return false;
        add('B', i);
        at_work = held(memory) + chain_.layer(i).retape->tape_transient.count();
        forwards_.insert({i, m});
        break;
      case Op::kBackward:
      case Op::kBackwardInput: {
        if (home(i) != rank || !(has('T', i) || has('B', i)) || !has('g', i) || !readable(i - 1))
          return false;
        if (has('g', i - 1) || !backwards_.insert({i, m}).second) return false;
        const bool is_split = a.op == Op::kBackwardInput;
        if (is_split && has('P', i)) return false;
        const chain::LayerCost& layer = chain_.layer(i);
        at_work =
            before + (is_split ? layer.split->input_transient : layer.backward_transient).count();
        if (has('B', i))
          at_work += (layer.retape->backward_transient - layer.backward_transient).count();
        remove(has('B', i) ? 'B' : 'T', i);
        remove('g', i);
        remove('x', i - 1);
        if (last) remove('t', i);
        if (i > 1) add('g', i - 1);
        if (is_split) add('P', i);
        break;
      }
      case Op::kBackwardWeights:
        if (home(i) != rank) return false;
        at_work = before + chain_.layer(i).in_parts().weights_transient.count();
        if (!remove('P', i)) return false;
        break;
      case Op::kDrop:
        if (!remove('x', i)) return false;
        break;
      case Op::kOffload:
        if (!remove('x', i)) return false;
        add('X', i);
        break;
      case Op::kPrefetch:
        if (has('T', i) || !remove('X', i)) return false;
        add('x', i);
        break;
      case Op::kOffloadTape:
        if (has('Y', i) || has('P', i + 1) || !remove('T', i)) return false;
        add('Y', i);
        break;
      case Op::kPrefetchTape:
        if (has('x', i) || !remove('Y', i)) return false;
        add('T', i);
        break;
      case Op::kLoadInput:
        if (readable(0) || has('X', 0)) return false;
        add('x', 0);
        break;
      case Op::kLoadTarget:
        if (has('t', i)) return false;
        add('t', i);
        break;
      case Op::kReadLoss:
        if (!readable(i) || !has('t', i) || has('g', i)) return false;
        if (!losses_.insert(m).second) return false;
        remove('x', i);
        if (trains_) add('g', i);
        if (!trains_) remove('t', i);
        break;
      case Op::kSendOutput:
        if (!readable(i)) return false;
        queues_[stream(a)].push_back({i, m});
        remove('x', i);
        break;
      case Op::kSendGradient:
        if (!remove('g', i)) return false;
        queues_[stream(a)].push_back({i, m});
        break;
      case Op::kReceiveInput:
      case Op::kReceiveGradient: {
        auto& queue = queues_[stream(a)];
        if (queue.front() != std::pair(i, m)) return false;
        queue.pop_front();
        known_.insert({stream(a), i});
        const bool output = a.op == Op::kReceiveInput;
        if (output ? readable(i) || has('X', i) : has('g', i)) return false;
        add(output ? 'x' : 'g', i);
        break;
      }
      default:
        break;
    }
    memory.peak = std::max({memory.peak, before, at_work, held(memory)});
    return true;
  }

  bool complete() const {
    for (const auto& [stream, queue] : queues_) {
      if (!queue.empty()) return false;
    }
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (ranks_[rank].next != program_.ranks[rank].size() || !ranks_[rank].values.empty())
        return false;
      if (!ends_well(program_.ranks[rank])) return false;
    }
    const auto all = static_cast<std::size_t>(program_.layers * program_.micro_batches);
    return forwards_.size() == all && (!trains_ || backwards_.size() == all) &&
           losses_.size() == static_cast<std::size_t>(program_.micro_batches);
  }

  /// reduce_gradients, clip, step once and last, as the generated programs have them.
  static bool ends_well(const std::vector<Action>& actions) {
    std::vector<Op> ops;
    for (const Action& action : actions) ops.push_back(action.op);
    const std::vector<Op> end = {Op::kReduceGradients, Op::kClip, Op::kStep};
    return ops.size() >= 3 && std::equal(end.begin(), end.end(), ops.end() - 3) &&
           std::none_of(ops.begin(), ops.end() - 3, [](Op op) {
             return op == Op::kReduceGradients || op == Op::kClip || op == Op::kStep;
           });
  }

  const chain::Chain& chain_;
  const program::Program& program_;
  std::size_t capacity_;
  bool trains_ = false;
  std::vector<RankMemory> ranks_;
  std::map<std::tuple<int, int, char>, std::deque<std::pair<int, int>>> queues_;
  std::set<std::pair<std::tuple<int, int, char>, int>> known_;  ///< streams with layers received
  std::set<std::pair<int, int>> forwards_, backwards_;
  std::set<int> losses_;
};

}  // namespace trireme::simulate
