// How the graph of an order is built.
// SPDX-License-Identifier: Apache-2.0
#include "order_graph.h"

#include "trireme/core/error.h"

#include <algorithm>

namespace trireme::schedule {

void OrderGraph::number_passes() {
  const std::size_t count = at(none_) + 1;
  for (std::vector<int>* const neighbours :
       {&before_, &after_, &source_, &taker_, &opener_, &opens_})
    neighbours->assign(count, none_);
  for (std::vector<Ticks>* const times : {&time_, &lag_in_, &lag_out_, &head_, &tail_})
    times->assign(count, 0);
  for (std::vector<int>* const numbers : {&group_, &micro_batch_, &place_, &message_, &reached_})
    numbers->assign(count, 0);
  stream_.assign(count, -1);
  for (const InstanceChunk& chunk : instance_.chunks) {
    for (const Phase phase : {kForwardPhase, kBackwardPhase, kWeightsPhase}) {
      need_.push_back(Instance::need(chunk, phase));
      change_.push_back(Instance::change(chunk, phase));
    }
  }
  for (const std::vector<int>& list : lists_) {
    std::vector<std::int64_t>& held = held_.emplace_back();
    std::int64_t now = 0;
    for (std::size_t place = 0; place < list.size(); ++place) {
      const int pass = list[place];
      place_[at(pass)] = static_cast<int>(place);
      group_[at(pass)] = pass / instance_.micro_batches;
      micro_batch_[at(pass)] = instance_.micro_batch_of(pass);
      time_[at(pass)] =
          instance_.chunk(instance_.chunk_of(pass)).time[at(instance_.phase_of(pass))];
      if (place > 0) before_[at(pass)] = list[place - 1];
      if (place > 0) after_[at(list[place - 1])] = pass;
      held.push_back(now);
      now += change_[at(group_[at(pass)])];
    }
  }
}

void OrderGraph::connect_messages() {
  const auto send = [&](int from, int to, Ticks lag) {
    taker_[at(from)] = to;
    source_[at(to)] = from;
    lag_out_[at(from)] = lag_in_[at(to)] = time_[at(from)] + lag;
  };
  for (int c = 0; c + 1 < instance_.length(); ++c) {
    const InstanceChunk& chunk = instance_.chunk(c);
    for (int i = 0; i < instance_.micro_batches; ++i) {
      send(instance_.node(c, kForwardPhase, i), instance_.node(c + 1, kForwardPhase, i),
           chunk.message);
      send(instance_.node(c + 1, kBackwardPhase, i), instance_.node(c, kBackwardPhase, i),
           chunk.message - chunk.ahead);
    }
  }
  sent_.resize(instance_.streams.size());
  for (const std::vector<int>& list : lists_) {
    for (const int pass : list) {
      const InstanceChunk& chunk = instance_.chunk(instance_.chunk_of(pass));
      int stream = -1;
      if (instance_.phase_of(pass) == kForwardPhase) stream = chunk.outputs;
      if (instance_.phase_of(pass) == kBackwardPhase) stream = chunk.gradients;
      if (stream < 0) continue;
      sent_[at(stream)].push_back(pass);
      if (instance_.streams[at(stream)].cuts == 1) continue;
      stream_[at(pass)] = stream;
      has_shared_streams_ = true;
    }
  }
  for (const std::vector<int>& sent : sent_) connect(sent, 0, static_cast<int>(sent.size()) - 1);
}

void OrderGraph::sort() {
  std::vector<int> waits_for(at(none_) + 1);
  std::size_t count = 0;
  for (const std::vector<int>& list : lists_) {
    count += list.size();
    for (const int pass : list)
      for (const int other : {before_[at(pass)], source_[at(pass)], opener_[at(before_[at(pass)])]})
        if (other != none_) ++waits_for[at(pass)];
  }
  for (const std::vector<int>& list : lists_)
    if (!list.empty() && waits_for[at(list.front())] == 0) sorted_.push_back(list.front());
  for (std::size_t next = 0; next < sorted_.size(); ++next) {
    const int pass = sorted_[next];
    for (const int other : {after_[at(pass)], taker_[at(pass)], after_[at(opens_[at(pass)])]})
      if (other != none_ && --waits_for[at(other)] == 0) sorted_.push_back(other);
  }
  ensure(sorted_.size() == count, "ranks of the order wait for each other in a circle");
  sorted_place_.resize(at(none_) + 1);
  for (std::size_t place = 0; place < count; ++place)
    sorted_place_[at(sorted_[place])] = static_cast<int>(place);
  dirty_.resize(count / 64 + 1);
}

void OrderGraph::measure() {
  for (const int pass : sorted_) head_[at(pass)] = head_of(pass);
  for (std::size_t place = sorted_.size(); place-- > 0;)
    tail_[at(sorted_[place])] = tail_of(sorted_[place]);
  for (const int pass : sorted_) excess_ += over(through(pass));
}

}  // namespace trireme::schedule
