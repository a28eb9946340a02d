// Pareto fronts of stages.
//
// SPDX-License-Identifier: Apache-2.0
#include "lean_stages.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <tuple>

namespace trireme::solve {

// A front as rebuild_stage() reads it: what fits into m and, at the pause, into m - slack.
class LeanStages::Reader final : public CostReader {
 public:
  Reader(const IntervalTable<LeastColumn>& table, const std::vector<Front>& fronts, Slots slack)
      : CostReader(table.shared_costs(), table.freedom()),
        table_(table),
        fronts_(fronts),
        slack_(slack) {}

  double extra(Recurrence which, int s, int t, Slots m) const override {
    if (which != Recurrence::kFirst) return table_.extra(which, s, t, m);
    double least = std::numeric_limits<double>::infinity();
    for (const Point& point : fronts_[static_cast<std::size_t>(t - s)]) {
      if (point.needs <= m && point.kept <= m - slack_) least = std::min(least, point.time);
    }
    return least;
  }
  Slots slack() const override { return slack_; }

 private:
  const IntervalTable<LeastColumn>& table_;
  const std::vector<Front>& fronts_;
  Slots slack_;
};

LeanStages::LeanStages(const chain::Chain& chain, Freedom freedom)
    : chain_((require_table_size(1, chain.length()), chain)),
      table_(
          std::make_shared<const Costs>(chain, 1, chain.length(), Bytes(1), RetapeBytes::kTheirOwn),
          freedom, 0),
      equal_(chain, 1, std::max(1, chain.length() - 1)) {}

Bytes LeanStages::least_memory(chain::LayerRange layers, int in_flight) {
  return in_flight * chain_.output(layers.first - 1) +
         Bytes(sum(least(layers, in_flight), in_flight));
}

Seconds LeanStages::recompute(chain::LayerRange layers, int in_flight) {
  return Seconds(least(layers, in_flight).time);
}

program::StageProgram LeanStages::leanest(chain::LayerRange layers, int in_flight) {
  const std::vector<Front>& found = fronts(layers, in_flight);
  const Point& point = found[static_cast<std::size_t>(layers.last - layers.first)].back();
  return rebuild_stage(Reader(table_, found, point.needs - point.kept), layers, point.needs);
}

// Equal stages share the point of the last one among them: stages of any length then end with the
// same layer, and the fronts of one are part of the next one's. The loss equals no other layer.
const LeanStages::Point& LeanStages::least(chain::LayerRange layers, int in_flight) {
  const auto [first, last] = layers;
  const int twin = last == chain_.length() ? first : equal_.twin(first, last);
  return fronts({twin, twin + last - first}, in_flight)[static_cast<std::size_t>(last - first)]
      .back();
}

const std::vector<LeanStages::Front>& LeanStages::fronts(chain::LayerRange layers, int in_flight) {
  std::vector<Front>& found = fronts_[{layers.last, in_flight}];
  for (int s = layers.last - static_cast<int>(found.size()); s >= layers.first; --s) {
    found.push_back(front(found, {s, layers.last}, in_flight));
  }
  return found;
}

LeanStages::Front LeanStages::front(const std::vector<Front>& right, chain::LayerRange layers,
                                    int in_flight) const {
  const int s = layers.first, t = layers.last;
  Front all;
  each_split(table_.costs(), table_.freedom(), Recurrence::kFirst, layers, [&](const Split& split) {
    const LeastColumn& left = table_.column(split.left, s, split.at);
    const Slots needs = std::max(split.needs, left.needs);
    const double time = split.runs + left.time;
    if (split.at == t) {
      all.push_back({split.holds, std::max(needs, split.holds), time});
      return;
    }
    for (const Point& point : right[static_cast<std::size_t>(t - split.at - 1)]) {
      all.push_back({split.holds + point.kept, std::max(needs, split.holds + point.needs),
                     time + point.time});
    }
  });
  // With one in flight only the sum counts; what is kept is inside it.
  const auto kept = [in_flight](const Point& point) { return in_flight == 1 ? 0 : point.kept; };
  std::sort(all.begin(), all.end(), [&](const Point& a, const Point& b) {
    const Slots a_sum = sum(a, in_flight), b_sum = sum(b, in_flight);
    return std::tuple(kept(a), a_sum, a.time) < std::tuple(kept(b), b_sum, b.time);
  });
  Front front;
  for (const Point& point : all) {
    if (front.empty() || sum(point, in_flight) < sum(front.back(), in_flight)) {
      front.push_back(point);
    }
  }
  return front;
}

}  // namespace trireme::solve
