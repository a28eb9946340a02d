// SPDX-License-Identifier: Apache-2.0
#include "order_graph.h"

#include "trireme/core/error.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace trireme::schedule {

OrderGraph::OrderGraph(const Instance& instance, Lists lists, Ticks target)
    : instance_(instance), target_(target), none_(instance.nodes()), lists_(std::move(lists)) {
  number_passes();
  connect_messages();
  sort();
  measure();
}

Ticks OrderGraph::makespan() const {
  Ticks most = 0;
  for (const std::vector<int>& list : lists_)
    if (!list.empty()) most = std::max(most, head_[at(list.back())] + time_[at(list.back())]);
  return most;
}

bool OrderGraph::change(int rank, int first, const std::vector<int>& passes) {
  rank_ = rank;
  first_ = first;
  last_ = first + static_cast<int>(passes.size()) - 1;
  const auto begin = lists_[at(rank)].begin() + first;
  were_there_.assign(begin, begin + static_cast<std::ptrdiff_t>(passes.size()));
  windows_.clear();
  was_sorted_.clear();
  heads_before_.clear();
  tails_before_.clear();
  excess_before_ = excess_;
  put_in_places(passes);
  if (!is_allowed() || !sort_again()) {
    take_back();
    return false;
  }
  for (const int pass : followed_) mark(after_[at(pass)]);
  if (first == 0) mark(lists_[at(rank)].front());
  for (const int pass : renumbered_) mark(after_[at(pass)]);
  update_heads();
  for (const int pass : followed_) {
    mark(pass);
    mark(opener_[at(pass)]);
  }
  for (const int pass : reopened_) mark(pass);
  update_tails();
  return true;
}

void OrderGraph::take_back() {
  const std::vector<int> passes = were_there_;
  put_in_places(passes);
  for (std::size_t i = windows_.size(); i-- > 0;) {
    const Window window = windows_[i];
    for (int k = window.size; k-- > 0;) {
      const int pass = was_sorted_.back();
      was_sorted_.pop_back();
      sorted_[at(window.first + k)] = pass;
      sorted_place_[at(pass)] = window.first + k;
    }
  }
  for (std::size_t i = heads_before_.size(); i-- > 0;)
    head_[at(heads_before_[i].node)] = heads_before_[i].time;
  for (std::size_t i = tails_before_.size(); i-- > 0;)
    tail_[at(tails_before_[i].node)] = tails_before_[i].time;
  excess_ = excess_before_;
}

void OrderGraph::put_in_places(const std::vector<int>& passes) {
  std::vector<int>& list = lists_[at(rank_)];
  std::vector<std::int64_t>& held = held_[at(rank_)];
  std::copy(passes.begin(), passes.end(), list.begin() + first_);
  const int end = static_cast<int>(list.size());
  followed_.clear();
  int previous = first_ == 0 ? none_ : list[at(first_ - 1)];
  for (int place = first_; place <= std::min(last_ + 1, end); ++place) {
    const int pass = place < end ? list[at(place)] : none_;
    if (previous != none_ && after_[at(previous)] != pass) {
      after_[at(previous)] = pass;
      followed_.push_back(previous);
    }
    if (pass != none_) before_[at(pass)] = previous;
    if (place > last_) break;
    place_[at(pass)] = place;
    if (place < last_) held[at(place) + 1] = held[at(place)] + change_[at(group_[at(pass)])];
    previous = pass;
  }
  renumber_messages();
}

bool OrderGraph::is_allowed() const {
  const std::vector<int>& list = lists_[at(rank_)];
  const std::vector<std::int64_t>& held = held_[at(rank_)];
  const std::int64_t room = instance_.room[at(rank_)];
  for (int place = first_; place <= last_; ++place) {
    const int pass = list[at(place)];
    const int group = group_[at(pass)];
    if (held[at(place)] + need_[at(group)] > room) return false;
    // The same micro-batch's pass of the phase before, and the same phase's of the one before.
    if (group % kPhases != kForwardPhase && place_[at(pass - instance_.micro_batches)] > place)
      return false;
    if (micro_batch_[at(pass)] > 0 && place_[at(pass - 1)] > place) return false;
  }
  return true;
}

/// Numbers the messages that passes in the changed places send into streams which several cuts of
/// the chain share.
void OrderGraph::renumber_messages() {
  renumbered_.clear();
  reopened_.clear();
  if (!has_shared_streams_) return;
  const std::vector<int>& list = lists_[at(rank_)];
  touched_.clear();
  for (int place = first_; place <= last_; ++place) {
    const int stream = stream_[at(list[at(place)])];
    if (stream >= 0 && std::find(touched_.begin(), touched_.end(), stream) == touched_.end())
      touched_.push_back(stream);
  }
  for (const int stream : touched_) {
    std::vector<int>& sent = sent_[at(stream)];
    int first = static_cast<int>(sent.size());
    for (int place = first_; place <= last_; ++place)
      if (stream_[at(list[at(place)])] == stream)
        first = std::min(first, message_[at(list[at(place)])]);
    int number = first;
    bool is_other = false;
    for (int place = first_; place <= last_; ++place) {
      if (stream_[at(list[at(place)])] != stream) continue;
      is_other = is_other || sent[at(number)] != list[at(place)];
      sent[at(number++)] = list[at(place)];
    }
    if (is_other) connect(sent, first, number - 1);
  }
}

void OrderGraph::connect(const std::vector<int>& sent, int first, int last) {
  const int size = static_cast<int>(sent.size());
  for (int number = first; number <= last; ++number) message_[at(sent[at(number)])] = number;
  for (int number = first; number < std::min(size, last + 1 + instance_.capacity); ++number) {
    const int before = number - instance_.capacity;
    opener_[at(sent[at(number)])] = before < 0 ? none_ : taker_[at(sent[at(before)])];
    renumbered_.push_back(sent[at(number)]);
  }
  for (int number = std::max(0, first - instance_.capacity); number <= last; ++number) {
    const int later = number + instance_.capacity;
    const int taker = taker_[at(sent[at(number)])];
    opens_[at(taker)] = later < size ? sent[at(later)] : none_;
    reopened_.push_back(taker);
  }
}

bool OrderGraph::sort_again() {
  if (first_ == 0 && !come_in_order(lists_[at(rank_)].front())) return false;
  for (const int pass : followed_)
    if (!come_in_order(after_[at(pass)])) return false;
  for (const int pass : renumbered_)
    if (!come_in_order(after_[at(pass)])) return false;
  return true;
}

bool OrderGraph::come_in_order(int pass) {
  if (pass == none_) return true;
  const int before = before_[at(pass)];
  return put_after(before, pass) && put_after(opener_[at(before)], pass);
}

/// Brings `pass` and what waits for it after `before`, which it waits for; false where that waits
/// for it, too. What was in order stays in order.
bool OrderGraph::put_after(int before, int pass) {
  if (before == none_ || sorted_place_[at(before)] < sorted_place_[at(pass)]) return true;
  const int first = sorted_place_[at(pass)];
  const int last = sorted_place_[at(before)];
  windows_.push_back({first, last - first + 1});
  was_sorted_.insert(was_sorted_.end(), sorted_.begin() + first, sorted_.begin() + last + 1);
  ++search_;
  const auto is_reached = [&](int node) { return reached_[at(node)] == search_; };
  moved_on_.clear();
  int place = first;
  for (int i = first; i <= last; ++i) {
    const int node = sorted_[at(i)];
    const int previous = before_[at(node)];
    if (node == pass || is_reached(previous) || is_reached(source_[at(node)]) ||
        is_reached(opener_[at(previous)])) {
      if (node == before) return false;
      reached_[at(node)] = search_;
      moved_on_.push_back(node);
    } else {
      sorted_[at(place)] = node;
      sorted_place_[at(node)] = place++;
    }
  }
  for (const int node : moved_on_) {
    sorted_[at(place)] = node;
    sorted_place_[at(node)] = place++;
  }
  return true;
}

void OrderGraph::update_heads() {
  for (std::size_t word = 0; word < dirty_.size(); ++word) {
    while (dirty_[word] != 0) {
      const int bit = std::countr_zero(dirty_[word]);
      dirty_[word] &= dirty_[word] - 1;
      const int pass = sorted_[word * 64 + at(bit)];
      const Ticks before = head_[at(pass)];
      const Ticks now = head_of(pass);
      if (now == before) continue;
      heads_before_.push_back({pass, before});
      excess_ += over(now + tail_[at(pass)]) - over(before + tail_[at(pass)]);
      head_[at(pass)] = now;
      mark(after_[at(pass)]);
      mark(taker_[at(pass)]);
      mark(after_[at(opens_[at(pass)])]);
    }
  }
}

void OrderGraph::update_tails() {
  for (std::size_t word = dirty_.size(); word-- > 0;) {
    while (dirty_[word] != 0) {
      const int bit = 63 - std::countl_zero(dirty_[word]);
      dirty_[word] &= ~(std::uint64_t{1} << static_cast<unsigned>(bit));
      const int pass = sorted_[word * 64 + at(bit)];
      const Ticks before = tail_[at(pass)];
      const Ticks now = tail_of(pass);
      if (now == before) continue;
      tails_before_.push_back({pass, before});
      excess_ += over(now + head_[at(pass)]) - over(before + head_[at(pass)]);
      tail_[at(pass)] = now;
      mark(before_[at(pass)]);
      mark(source_[at(pass)]);
      mark(opener_[at(before_[at(pass)])]);
    }
  }
}

Ticks OrderGraph::head_of(int node) const {
  const auto previous = at(before_[at(node)]);
  return std::max({head_[previous] + time_[previous], head_[at(opener_[previous])],
                   head_[at(source_[at(node)])] + lag_in_[at(node)]});
}

Ticks OrderGraph::tail_of(int node) const {
  return std::max({time_[at(node)] + tail_[at(after_[at(node)])],
                   tail_[at(taker_[at(node)])] + lag_out_[at(node)],
                   tail_[at(after_[at(opens_[at(node)])])]});
}

}  // namespace trireme::schedule
