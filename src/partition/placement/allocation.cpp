// SPDX-License-Identifier: Apache-2.0
#include "cut/in_flight.h"
#include "madpipe.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

namespace trireme::partition {
namespace {

/// Rounding error of sums of the same times.
constexpr double kSame = 1 + 1e-9;

/// All ranks but `special`, in the order in which each gets one stage.
std::vector<int> normal_ranks(int ranks, int special) {
  std::vector<int> normal(at(ranks));
  std::iota(normal.begin(), normal.end(), 0);
  normal.erase(normal.begin() + special);
  return normal;
}

/// MadPipe's dynamic program (Beaumont, Eyraud-Dubois and Shilova 2022); instead of discretizing
/// the special rank's load and memory, it keeps sets of non-dominated labels.
class AllocationSearch {
 public:
  AllocationSearch(const StageRoom& room, StageOptions& options, int special,
                   std::size_t most_labels, Seconds period)
      : room_(room),
        options_(options),
        special_(special),
        most_labels_(most_labels),
        period_(period),
        longest_(period * kSame),
        normal_(normal_ranks(room.stages(), special)) {}

  std::vector<Allocation> found() {
    const int layers = room_.layers(), normals = static_cast<int>(normal_.size());
    add({.begin = layers + 1});
    for (int begin = layers + 1; begin > 1; --begin) {
      for (int placed = 0; placed <= normals; ++placed) {
        for (const bool special : {false, true}) {
          // Extended labels belong to other states.
          Labels& labels = states_[{begin, placed, special}];
          thin(labels);
          for (const Label* const label : labels) extend(*label);
        }
      }
    }
    std::vector<Allocation> found;
    for (const bool special : {false, true}) {
      Labels& whole = states_[{1, normals, special}];
      std::erase_if(whole, [](const Label* label) { return label->specials == 0; });
      thin(whole);
      for (const Label* const label : whole) found.push_back(traced(label));
    }
    return found;
  }

 private:
  /// A partial allocation: layers begin..L are placed.
  struct Label {
    int begin = 1, last = 0;  ///< range of the first stage among them
    int rank = -1;            ///< its rank
    int normals = 0, specials = 0;
    const Label* after = nullptr;  ///< the label before that stage was added
    Seconds load;                  ///< time of the special rank
    Seconds in_flight;       ///< time from the start of its forward to the end of its backward
    Bytes kept{}, beyond{};  ///< bytes of the special rank

    chain::LayerRange stage() const { return {begin, last}; }
    Bytes memory() const { return kept + beyond; }
    auto in_order() const { return std::tuple(load, in_flight, memory()); }
    /// Dominance, given that `other` has no less load.
    bool beats(const Label& other) const {
      return in_flight <= other.in_flight && kept <= other.kept && beyond <= other.beyond &&
             (specials > 0 || other.specials == 0);
    }
  };

  using Labels = std::vector<const Label*>;

  void add(const Label& label) {
    labels_.push_back(label);
    states_[{label.begin, label.normals, label.rank == special_}].push_back(&labels_.back());
  }

  void thin(Labels& labels) const {
    std::sort(labels.begin(), labels.end(), [](const Label* one, const Label* other) {
      return one->in_order() < other->in_order();
    });
    Labels best;
    for (const Label* const label : labels) {
      if (std::none_of(best.begin(), best.end(),
                       [&](const Label* other) { return other->beats(*label); }))
        best.push_back(label);
    }
    labels.clear();
    const std::size_t count = std::min(best.size(), most_labels_);
    for (std::size_t i = 0; i < count; ++i)
      labels.push_back(count == 1 ? best[0] : best[i * (best.size() - 1) / (count - 1)]);
  }

  void extend(const Label& from) {
    const int last = from.begin - 1;
    const bool may_be_special = from.rank != special_;
    const bool may_be_normal = from.normals < std::ssize(normal_);
    const int normal = may_be_normal ? normal_[normal_.size() - 1 - at(from.normals)] : -1;
    for (int first = last; first >= 1; --first) {
      const bool normal_fits = may_be_normal && room_.work(normal, {first, last}) <= longest_;
      const bool special_fits =
          may_be_special && from.load + room_.work(special_, {first, last}) <= longest_;
      if (!normal_fits && !special_fits) break;
      Label next = from;
      next.last = last;
      next.begin = first;
      next.after = &from;
      next.rank = normal;
      if (normal_fits) add_normal(next, from);
      next.rank = special_;
      if (special_fits) add_special(next, from);
    }
  }

  /// Adds `next`, which is `from` with one more stage whose costs are not yet included.
  void add_normal(Label next, const Label& from) {
    ++next.normals;
    if (is_hopeless(next)) return;
    const Seconds taken = behind_link(from, next.rank);
    if (taken == kNever) return;
    const chain::LayerRange layers = next.stage();
    const Bytes memory = room_.memory(next.rank, layers);
    Seconds time = room_.work(next.rank, layers);
    // Fixed point: more time may mean more in flight, and more in flight less memory for each.
    for (int in_flight = 0;;) {
      next.in_flight = time_in_flight(time, taken, period_);
      const int wanted = count(next.in_flight);
      if (wanted <= in_flight) break;
      in_flight = wanted;
      time = options_.time(layers, memory, in_flight) / room_.speed(next.rank);
      if (time > longest_) return;
    }
    add(next);
  }

  /// Likewise for the special rank, with each of the programs that it may run.
  void add_special(const Label& one_more, const Label& from) {
    const chain::LayerRange layers = one_more.stage();
    const Seconds taken = behind_link(from, special_);
    if (taken == kNever) return;
    const Bytes whole = room_.whole(special_);
    const Bytes alone = room_.memory(special_, layers);
    const int in_flight = count(time_in_flight(room_.work(special_, layers), taken, period_));
    for (const Prepared& choice :
         options_.several(layers, alone, in_flight, StageOptions::How::kQuick)) {
      const Seconds time = choice.needs.time() / room_.speed(special_);
      Label next = one_more;
      ++next.specials;
      next.load += time;
      next.in_flight = time_in_flight(time, taken, period_);
      if (alone != kUnlimited) next.kept += whole - alone;  // static bytes and buffers
      next.kept += choice.needs.kept * in_flight;
      next.beyond = std::max(next.beyond, choice.needs.beyond_kept());
      if (next.load > longest_ || is_hopeless(next)) continue;
      if (alone == kUnlimited || next.memory() <= whole) add(next);
    }
  }

  bool is_hopeless(const Label& label) const {
    const std::size_t left = normal_.size() - at(label.normals);
    const int layers = label.begin - 1;
    const bool one_more = label.specials == 0;
    if (layers < static_cast<int>(left) + (one_more ? 1 : 0)) return true;
    if (layers > 0 && left == 0 && label.rank == special_) return true;
    const double speed = room_.speed(special_);
    Seconds capacity = (period_ - label.load) * speed;
    for (std::size_t i = 0; i < left; ++i) capacity += period_ * room_.speed(normal_[i]);
    return layers > 0 && room_.work(special_, {1, layers}) * speed > capacity * kSame;
  }

  /// Time in flight of all that follows a stage on `rank`, including its link; kNever if the
  /// link is too slow.
  Seconds behind_link(const Label& label, int rank) const {
    if (label.rank < 0) return Seconds(0);
    const chain::LinkSpec link = room_.question().platform.link(rank, label.rank);
    const Seconds both_ways = 2 * room_.transfer(link, label.begin - 1);
    if (both_ways > longest_) return kNever;
    return both_ways > Seconds(0) ? time_in_flight(both_ways, label.in_flight, period_)
                                  : label.in_flight;
  }

  int count(Seconds time) const {
    const Question& question = room_.question();
    if (question.schedule == "gpipe") return question.micro_batches;
    return std::min(begun_within(time, period_), question.micro_batches);
  }

  static Allocation traced(const Label* label) {
    Allocation allocation;
    for (; label->after != nullptr; label = label->after) {
      allocation.ends.push_back(label->last);
      allocation.ranks.push_back(label->rank);
    }
    return allocation;
  }

  const StageRoom& room_;
  StageOptions& options_;
  const int special_;
  const std::size_t most_labels_;
  const Seconds period_, longest_;
  const std::vector<int> normal_;
  std::deque<Label> labels_;  // a deque, since labels point to one another
  /// By first layer, number of normal ranks used, and whether the first stage is the special
  /// rank's.
  std::map<std::tuple<int, int, bool>, Labels> states_;
};

}  // namespace

std::vector<std::vector<int>> stages_by_rank(const Allocation& allocation, int ranks) {
  std::vector<std::vector<int>> stages(at(ranks));
  for (int k = 0; k < allocation.stages(); ++k) stages[at(allocation.rank(k))].push_back(k);
  return stages;
}

std::vector<int> special_ranks(const chain::Platform& platform, int ranks) {
  std::vector<int> special;
  for (int rank = 0; rank < ranks; ++rank) {
    // Where links differ, equal ranks are not interchangeable.
    if (rank == 0 || platform.ranks[at(rank)] != platform.ranks[at(rank - 1)] ||
        !platform.overrides.empty())
      special.push_back(rank);
  }
  return special;
}

double count_allocations(int layers, int ranks) {
  double count = 0;
  for (int specials = 1; specials <= ranks; ++specials)
    count += choose(ranks, specials) * choose(layers - 1, ranks + specials - 2);
  return count;
}

std::vector<Allocation> every_allocation(int layers, int ranks, int special) {
  const std::vector<int> normal = normal_ranks(ranks, special);
  Allocation grown;
  std::vector<Allocation> found;
  // Extends `grown`, which has `normals` normal stages and perhaps special ones, in all ways that
  // can be completed.
  const std::function<void(int, bool)> extend = [&](int normals, bool has_special) {
    const int begin = grown.first(grown.stages());
    if (begin > layers) return found.push_back(grown);
    const bool may_be_special = grown.ranks.empty() || grown.ranks.back() != special;
    for (const bool is_special : {false, true}) {
      if (is_special ? !may_be_special : normals + 1 == ranks) continue;
      const int with = normals + (is_special ? 0 : 1);
      const bool has_one = has_special || is_special;
      // Remaining stages need a layer each; where none can follow, no layer may be left.
      const int left = ranks - 1 - with;
      const int first_end = is_special && left == 0 ? layers : begin;
      grown.ranks.push_back(is_special ? special : normal[at(normals)]);
      for (int last = first_end; last <= layers - left - (has_one ? 0 : 1); ++last) {
        grown.ends.push_back(last);
        extend(with, has_one);
        grown.ends.pop_back();
      }
      grown.ranks.pop_back();
    }
  };
  extend(0, false);
  return found;
}

Seconds least_step(const StageRoom& room, const Allocation& allocation) {
  const auto work = [&](int k) { return room.work(allocation.rank(k), allocation.layers(k)); };
  Seconds least;
  for (const std::vector<int>& stages : stages_by_rank(allocation, room.stages())) {
    if (stages.empty()) continue;
    Seconds load, before;
    for (const int k : stages) load += work(k);
    for (int k = 0; k < stages.front(); ++k) before += work(k);
    least = std::max(least, before + load * room.question().micro_batches);
  }
  return least;
}

Seconds least_period(const StageRoom& room, int special) {
  Seconds slowest;
  double speed = 0, fastest = 0;
  for (int rank = 0; rank < room.stages(); ++rank) {
    speed += room.speed(rank);
    fastest = std::max(fastest, room.speed(rank));
  }
  const auto work = [&](chain::LayerRange layers) {
    return room.work(special, layers) * room.speed(special);
  };
  for (int i = 1; i <= room.layers(); ++i) slowest = std::max(slowest, work({i, i}) / fastest);
  return std::max(slowest, work({1, room.layers()}) / speed);
}

std::vector<Allocation> allocations_within(const StageRoom& room, StageOptions& options,
                                           int special, std::size_t most_labels, Seconds period) {
  return AllocationSearch(room, options, special, most_labels, period).found();
}

}  // namespace trireme::partition
