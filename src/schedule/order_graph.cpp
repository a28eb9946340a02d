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

bool OrderGraph::move(int rank, int from, int to) {
  last_ = {rank, from, to};
  if (!stays_sound(last_) || !stays_in_room(last_)) return false;
  windows_.clear();
  was_sorted_.clear();
  heads_before_.clear();
  tails_before_.clear();
  excess_before_ = excess_;
  shift(last_);
  if (!sort_again()) {
    take_back();
    return false;
  }
  for (const int pass : followed_) mark(after_[at(pass)]);
  if (to == 0 || from == 0) mark(lists_[at(rank)].front());
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
  shift({last_.rank, last_.to, last_.from});
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
    head_[at(heads_before_[i].node)] = heads_before_[i].before;
  for (std::size_t i = tails_before_.size(); i-- > 0;)
    tail_[at(tails_before_[i].node)] = tails_before_[i].before;
  excess_ = excess_before_;
}

bool OrderGraph::stays_sound(const Move& move) const {
  const std::vector<int>& list = lists_[at(move.rank)];
  const int pass = list[at(move.from)];
  const int group = group_[at(pass)];
  const int chunk = group / kPhases;
  for (int place = move.first(); place <= move.last(); ++place) {
    const int other = list[at(place)];
    if (other == pass || group_[at(other)] / kPhases != chunk) continue;
    if (group_[at(other)] == group || micro_batch_[at(other)] == micro_batch_[at(pass)])
      return false;
  }
  return true;
}

bool OrderGraph::stays_in_room(const Move& move) const {
  const std::vector<int>& list = lists_[at(move.rank)];
  const std::vector<std::int64_t>& held = held_[at(move.rank)];
  const std::int64_t room = instance_.room[at(move.rank)];
  const int pass = list[at(move.from)];
  const std::int64_t change = change_[at(group_[at(pass)])];
  std::int64_t own = held[at(move.to)];  // what is held before it at its new place
  std::int64_t others = change;          // what those have more that now come behind it
  if (move.from < move.to) {
    own += change_[at(group_[at(list[at(move.to)])])] - change;
    others = -change;
  }
  if (own + need_[at(group_[at(pass)])] > room) return false;
  if (others <= 0) return true;
  for (int place = move.first(); place <= move.last(); ++place)
    if (place != move.from &&
        held[at(place)] + others + need_[at(group_[at(list[at(place)])])] > room)
      return false;
  return true;
}

void OrderGraph::shift(const Move& move) {
  std::vector<int>& list = lists_[at(move.rank)];
  std::vector<std::int64_t>& held = held_[at(move.rank)];
  const auto begin = list.begin();
  if (move.from < move.to)
    std::rotate(begin + move.from, begin + move.from + 1, begin + move.to + 1);
  else
    std::rotate(begin + move.to, begin + move.from, begin + move.from + 1);
  int previous = move.first() == 0 ? none_ : list[at(move.first() - 1)];
  for (int place = move.first(); place <= move.last(); ++place) {
    const int pass = list[at(place)];
    place_[at(pass)] = place;
    before_[at(pass)] = previous;
    if (previous != none_) after_[at(previous)] = pass;
    if (place < move.last())
      held[at(place) + 1] = held[at(place)] + change_[at(group_[at(pass)])];
    previous = pass;
  }
  const bool ends = at(move.last()) + 1 == list.size();
  after_[at(previous)] = ends ? none_ : list[at(move.last()) + 1];
  if (!ends) before_[at(list[at(move.last()) + 1])] = previous;
  followed_.clear();
  const int other = move.from < move.to ? move.to - 1 : move.from;
  for (const int place : {move.first() - 1, move.to, other})
    if (place >= 0) followed_.push_back(list[at(place)]);
  renumber_messages(move);
}

void OrderGraph::renumber_messages(const Move& move) {
  renumbered_.clear();
  reopened_.clear();
  const std::vector<int>& list = lists_[at(move.rank)];
  const int pass = list[at(move.to)];
  const int stream = stream_[at(pass)];
  if (stream < 0) return;
  int passed = 0;
  for (int place = move.first(); place <= move.last(); ++place)
    if (place != move.to && stream_[at(list[at(place)])] == stream) ++passed;
  if (passed == 0) return;
  std::vector<int>& sent = sent_[at(stream)];
  const int number = message_[at(pass)];
  const auto begin = sent.begin();
  if (move.from < move.to) {
    std::rotate(begin + number, begin + number + 1, begin + number + passed + 1);
    connect(sent, number, number + passed);
  } else {
    std::rotate(begin + number - passed, begin + number, begin + number + 1);
    connect(sent, number - passed, number);
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
    const int behind = number + instance_.capacity;
    const int taker = taker_[at(sent[at(number)])];
    opens_[at(taker)] = behind < size ? sent[at(behind)] : none_;
    reopened_.push_back(taker);
  }
}

bool OrderGraph::sort_again() {
  if (last_.first() == 0 && !come_in_order(lists_[at(last_.rank)].front())) return false;
  for (const int pass : followed_)
    if (!come_in_order(after_[at(pass)])) return false;
  for (const int pass : renumbered_)
    if (!come_in_order(after_[at(pass)])) return false;
  return true;
}

bool OrderGraph::come_in_order(int pass) {
  if (pass == none_) return true;
  const int before = before_[at(pass)];
  return put_behind(before, pass) && put_behind(opener_[at(before)], pass);
}

/// Brings `pass` and what waits for it behind `before`, which it waits for; false where that waits
/// for it, too. What was in order stays in order.
bool OrderGraph::put_behind(int before, int pass) {
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
