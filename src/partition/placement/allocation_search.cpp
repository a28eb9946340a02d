// SPDX-License-Identifier: Apache-2.0
#include "allocation_search.h"

#include "cut/in_flight.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace trireme::partition {
namespace {

/// Sums of the same times in another order differ by less.
constexpr double kSame = 1 + 1e-9;

}  // namespace

AllocationSearch::AllocationSearch(SharedPlans& plans, int special, std::size_t most_labels)
    : plans_(plans),
      room_(plans.room()),
      special_(special),
      most_labels_(most_labels),
      normal_(normal_ranks(plans.room().stages(), special)) {}

std::vector<Allocation> AllocationSearch::within(double period) {
  const int layers = room_.layers(), normals = static_cast<int>(normal_.size());
  labels_.clear();
  states_.assign(static_cast<std::size_t>(2 * (layers + 2) * (normals + 1)), {});
  add({.begin = layers + 1});
  for (int begin = layers + 1; begin > 1; --begin) {
    for (int placed = 0; placed <= normals; ++placed) {
      for (const bool special : {false, true}) {
        thin(labels_at(begin, placed, special));
        // Longer labels join other states, so this one stays as it is.
        for (const int label : std::vector<int>(labels_at(begin, placed, special)))
          extend(label, period);
      }
    }
  }
  std::vector<Allocation> found;
  for (const bool special : {false, true}) {
    std::vector<int>& whole = labels_at(1, normals, special);
    std::erase_if(
        whole, [&](int label) { return labels_[static_cast<std::size_t>(label)].specials == 0; });
    thin(whole);
    for (const int label : whole) found.push_back(traced(label));
  }
  return found;
}

double AllocationSearch::least_period() const {
  double slowest = 0, speed = 0, fastest = 0;
  for (int rank = 0; rank < room_.stages(); ++rank) {
    speed += room_.speed(rank);
    fastest = std::max(fastest, room_.speed(rank));
  }
  const auto work = [&](int first, int last) {
    return room_.work(special_, first, last) * room_.speed(special_);
  };
  for (int i = 1; i <= room_.layers(); ++i) slowest = std::max(slowest, work(i, i) / fastest);
  return std::max(slowest, work(1, room_.layers()) / speed);
}

std::vector<int>& AllocationSearch::labels_at(int begin, int normals, bool special) {
  const auto row = static_cast<std::size_t>(begin) * (normal_.size() + 1);
  return states_[2 * (row + static_cast<std::size_t>(normals)) + (special ? 1 : 0)];
}

void AllocationSearch::add(const Label& label) {
  const bool special = label.rank == special_;
  labels_at(label.begin, label.normals, special).push_back(static_cast<int>(labels_.size()));
  labels_.push_back(label);
}

void AllocationSearch::thin(std::vector<int>& labels) const {
  const auto at = [&](int label) -> const Label& {
    return labels_[static_cast<std::size_t>(label)];
  };
  std::sort(labels.begin(), labels.end(), [&](int a, int b) {
    return std::tuple(at(a).load, at(a).in_flight, at(a).memory()) <
           std::tuple(at(b).load, at(b).in_flight, at(b).memory());
  });
  std::vector<int> best;
  for (const int label : labels) {
    const bool beaten = std::any_of(best.begin(), best.end(), [&](int other) {
      return at(other).in_flight <= at(label).in_flight && at(other).kept <= at(label).kept &&
             at(other).beyond <= at(label).beyond &&
             (at(other).specials > 0 || at(label).specials == 0);
    });
    if (!beaten) best.push_back(label);
  }
  labels.clear();
  const std::size_t count = std::min(best.size(), most_labels_);
  for (std::size_t i = 0; i < count; ++i)
    labels.push_back(count == 1 ? best[0] : best[i * (best.size() - 1) / (count - 1)]);
}

void AllocationSearch::extend(int label, double period) {
  const Label from = labels_[static_cast<std::size_t>(label)];
  const int last = from.begin - 1;
  const bool may_be_special = from.rank != special_;
  const auto left = static_cast<int>(normal_.size()) - from.normals;
  for (int first = last; first >= 1; --first) {
    const bool normal_fits = left > 0 && room_.work(normal_[static_cast<std::size_t>(left) - 1],
                                                    first, last) <= period * kSame;
    const bool special_fits =
        may_be_special && from.load + room_.work(special_, first, last) <= period * kSame;
    if (!normal_fits && !special_fits) break;
    if (normal_fits) extend_normal(label, first, period);
    if (special_fits) extend_special(label, first, period);
  }
}

AllocationSearch::Label AllocationSearch::with_stage(int label, int first, int rank) const {
  Label next = labels_[static_cast<std::size_t>(label)];
  next.last = next.begin - 1;
  next.begin = first;
  next.rank = rank;
  next.after = label;
  return next;
}

void AllocationSearch::extend_normal(int label, int first, double period) {
  const Label& from = labels_[static_cast<std::size_t>(label)];
  const int rank = normal_[normal_.size() - 1 - static_cast<std::size_t>(from.normals)];
  const int last = from.begin - 1;
  Label next = with_stage(label, first, rank);
  ++next.normals;
  if (hopeless(next, period)) return;
  const double taken = behind_link(from, rank, period);
  if (taken == kNever) return;
  const Bytes memory = room_.memory(rank, first, last);
  double time = room_.work(rank, first, last);
  // More time may mean more in flight, and more in flight less memory for each.
  for (int in_flight = 0;;) {
    next.in_flight = seconds_in_flight(time, taken, period);
    const int wanted = count(next.in_flight, period);
    if (wanted <= in_flight) break;
    in_flight = wanted;
    time = plans_.options().time(first, last, memory, in_flight) / room_.speed(rank);
    if (time > period * kSame) return;
  }
  add(next);
}

void AllocationSearch::extend_special(int label, int first, double period) {
  const Label from = labels_[static_cast<std::size_t>(label)];
  const int last = from.begin - 1;
  const double taken = behind_link(from, special_, period);
  if (taken == kNever) return;
  const double speed = room_.speed(special_);
  const Bytes whole = room_.question().platform.ranks[static_cast<std::size_t>(special_)].memory;
  const Bytes alone = room_.memory(special_, first, last);
  const int in_flight =
      count(seconds_in_flight(room_.work(special_, first, last), taken, period), period);
  for (const Prepared& choice :
       plans_.options().several(first, last, alone, in_flight, StageOptions::How::kQuick)) {
    const double time = choice.needs.time() / speed;
    Label next = with_stage(label, first, special_);
    ++next.specials;
    next.load += time;
    next.in_flight = seconds_in_flight(time, taken, period);
    if (alone != kUnlimited) next.kept += whole - alone;  // static bytes and buffers
    next.kept += choice.needs.kept * in_flight;
    next.beyond = std::max(next.beyond, choice.needs.beyond_kept());
    if (next.load > period * kSame || hopeless(next, period)) continue;
    if (alone == kUnlimited || next.memory() <= whole) add(next);
  }
}

bool AllocationSearch::hopeless(const Label& label, double period) const {
  const std::size_t left = normal_.size() - static_cast<std::size_t>(label.normals);
  const int layers = label.begin - 1;
  const bool one_more = label.specials == 0;
  if (layers < static_cast<int>(left) + (one_more ? 1 : 0)) return true;
  if (layers > 0 && left == 0 && label.rank == special_) return true;
  const double speed = room_.speed(special_);
  double capacity = (period - label.load) * speed;
  for (std::size_t i = 0; i < left; ++i) capacity += period * room_.speed(normal_[i]);
  return layers > 0 && room_.work(special_, 1, layers) * speed > capacity * kSame;
}

double AllocationSearch::behind_link(const Label& label, int rank, double period) const {
  if (label.rank < 0) return 0;
  const double link = 2 * room_.transfer(rank, label.rank, label.begin - 1);
  if (link > period * kSame) return kNever;
  return link > 0 ? seconds_in_flight(link, label.in_flight, period) : label.in_flight;
}

int AllocationSearch::count(double seconds, double period) const {
  const Question& question = room_.question();
  if (question.schedule == "gpipe") return question.micro_batches;
  return std::min(begun_within(seconds, period), question.micro_batches);
}

Allocation AllocationSearch::traced(int label) const {
  Allocation allocation;
  while (label >= 0 && labels_[static_cast<std::size_t>(label)].rank >= 0) {
    const Label& stage = labels_[static_cast<std::size_t>(label)];
    allocation.ends.push_back(stage.last);
    allocation.ranks.push_back(stage.rank);
    label = stage.after;
  }
  return allocation;
}

}  // namespace trireme::partition
