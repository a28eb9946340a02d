// An order as a graph of longest ways, kept up to date while passes move.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "instance.h"

#include <cstdint>
#include <vector>

namespace trireme::schedule {

/// For every pass the longest way from the begin of the step to its begin (head) and from its begin
/// to the end of the step (tail). A pass waits for the one before it on its rank, for a message,
/// and, after a pass that sends, for the one that makes room in the stream. A change of
/// a rank's list updates what it must and can be taken back. Passes stay in a topological order, of
/// which only the part between a moved pass and those that it must come after is sorted again
/// (after Pearce and Kelly 2006).
class OrderGraph {
 public:
  /// The lists are sound and of the instance; ranks that wait in a circle are a LogicError.
  OrderGraph(const Instance& instance, Lists lists, Ticks target);

  const Lists& lists() const { return lists_; }
  Ticks makespan() const;
  /// Sum over all passes of what the longest way through them is longer than the target.
  Ticks excess() const { return excess_; }
  /// Longest way through a pass.
  Ticks through(int node) const { return head_[at(node)] + tail_[at(node)]; }

  int rank_of(int node) const { return instance_.chunk(group_[at(node)] / kPhases).rank; }
  int place_of(int node) const { return place_[at(node)]; }
  /// Three times the chunk plus the phase.
  int group_of(int node) const { return group_[at(node)]; }

  /// Gives the places of a rank from `first` on another order of the same passes. False, and
  /// nothing is changed, where the order would not be sound, exceed the room, or let ranks wait in
  /// a circle.
  bool change(int rank, int first, const std::vector<int>& passes);
  /// Takes the last change back. Only once.
  void take_back();

 private:
  struct Before {
    int node = 0;
    Ticks time = 0;
  };
  struct Window {
    int first = 0, size = 0;  ///< places of the topological order; what was there is in was_sorted_
  };
  void number_passes();
  void connect_messages();
  void sort();
  void measure();

  bool is_allowed() const;
  void put_in_places(const std::vector<int>& passes);
  void renumber_messages();
  void connect(const std::vector<int>& sent, int first, int last);
  bool sort_again();
  bool come_in_order(int pass);
  bool put_after(int before, int after);
  void update_heads();
  void update_tails();

  void mark(int node) {
    if (node == none_) return;
    const auto place = static_cast<unsigned>(sorted_place_[at(node)]);
    dirty_[place >> 6U] |= std::uint64_t{1} << (place & 63U);
  }
  Ticks head_of(int node) const;
  Ticks tail_of(int node) const;
  Ticks over(Ticks through) const { return through > target_ ? through - target_ : 0; }

  static std::size_t at(int index) { return static_cast<std::size_t>(index); }

  const Instance& instance_;
  Ticks target_;
  int none_;  ///< number that stands for no pass: begins at 0, takes no time
  Lists lists_;
  std::vector<std::vector<std::int64_t>> held_;  ///< by rank and place: bytes before the pass
  std::vector<std::int64_t> need_, change_;      ///< by chunk and phase
  // By pass.
  std::vector<int> group_, micro_batch_, place_;
  std::vector<int> before_, after_;  ///< neighbours on its rank
  std::vector<int> source_, taker_;  ///< whose message it takes, who takes its message
  std::vector<int> opener_;          ///< what must have begun before a rank goes on after this one
  std::vector<int> opens_;           ///< the reverse
  std::vector<Ticks> time_, lag_in_, lag_out_, head_, tail_;
  bool has_shared_streams_ = false;
  std::vector<int> stream_;             ///< into which it sends if several cuts share it, or -1
  std::vector<int> message_;            ///< its number in there
  std::vector<std::vector<int>> sent_;  ///< by stream: passes that send into it, in order
  // Passes that the last change gave another follower or another opener, and those that open
  // others since.
  std::vector<int> followed_, renumbered_, reopened_;
  std::vector<int> touched_;  ///< streams
  // Topological order.
  std::vector<int> sorted_, sorted_place_, moved_on_;
  std::vector<std::uint64_t> dirty_;  ///< by place of the topological order, a bit
  std::vector<int> reached_;          ///< by pass: the last search that came to it
  int search_ = 0;
  Ticks excess_ = 0;
  // What the last change did.
  int rank_ = 0, first_ = 0, last_ = 0;  ///< places
  std::vector<int> were_there_;
  Ticks excess_before_ = 0;
  std::vector<Before> heads_before_, tails_before_;
  std::vector<Window> windows_;
  std::vector<int> was_sorted_;
};

}  // namespace trireme::schedule
