// SPDX-License-Identifier: Apache-2.0
#include "original.h"

#include "model.h"
#include "scale.h"

#include <cstddef>

namespace trireme::poet {
namespace {

using graph::NodeCost;
using graph::Problem;

class Original {
 public:
  explicit Original(const Problem& problem)
      : problem_(problem),
        nodes_(problem.graph.size()),
        scale_(scale_of(problem, {.aim = Aim::kEnergy})),
        users_(users_of(problem.graph)) {}
  Milp build() &&;

 private:
  struct Pair {
    int made, ram, flash, in, out;  ///< R, SRAM, SSD, Min, Mout
  };

  void add_columns();
  int column(bool may_be_one, double joules);
  void carry(int t);
  void depend(int t);
  void hold(int t);
  int freed(int t, int from, int to);
  Pair& at(int t, int i) { return pairs_[static_cast<std::size_t>(t * nodes_ + i)]; }
  double bytes(int node) const { return scale_(problem_.graph.node(node).bytes); }

  const Problem& problem_;
  int nodes_;
  Scale scale_;
  std::vector<std::vector<int>> users_;
  std::vector<Pair> pairs_{};
  Milp milp_{};
};

Milp Original::build() && {
  add_columns();
  for (int t = 0; t < nodes_; ++t) {
    carry(t);
    depend(t);
    hold(t);
  }
  return std::move(milp_);
}

void Original::add_columns() {
  for (int t = 0; t < nodes_; ++t) {
    for (int i = 0; i < nodes_; ++i) {
      const NodeCost& cost = problem_.cost(i);
      Pair pair{};
      pair.made = column(i <= t, cost.energy.count());
      if (i == t) milp_.columns.back().lower = 1;
      pair.ram = column(i < t, 0);
      pair.flash = column(i < t, 0);
      pair.in = column(i <= t, cost.in_energy.count());
      pair.out = column(i <= t, cost.out_energy.count());
      pairs_.push_back(pair);
    }
  }
}

int Original::column(bool may_be_one, double joules) {
  return milp_.column({joules * scale_.objective, 0, may_be_one ? 1.0 : 0.0, true});
}

void Original::carry(int t) {
  for (int i = 0; i < nodes_; ++i) {
    const Pair& now = at(t, i);
    milp_.at_most({{now.in, 1}, {now.flash, -1}}, 0);
    milp_.at_most({{now.out, 1}, {now.ram, -1}}, 0);
    if (t + 1 == nodes_) continue;
    milp_.at_most({{at(t + 1, i).ram, 1}, {now.ram, -1}, {now.made, -1}, {now.in, -1}}, 0);
    milp_.at_most({{at(t + 1, i).flash, 1}, {now.flash, -1}, {now.out, -1}}, 0);
  }
}

void Original::depend(int t) {
  for (int v = 0; v < nodes_; ++v) {
    for (const int u : problem_.graph.node(v).inputs) {
      milp_.at_most({{at(t, v).made, 1}, {at(t, u).made, -1}, {at(t, u).ram, -1}}, 0);
    }
  }
}

void Original::hold(int t) {
  int before = -1;
  for (int k = 0; k < nodes_; ++k) {
    const int level = milp_.column({0, 0, scale_.memory, false});
    Terms terms{{level, -1}, {at(t, k).made, bytes(k)}};
    if (before < 0) {
      for (int i = 0; i < nodes_; ++i) terms.emplace_back(at(t, i).ram, bytes(i));
    } else {
      terms.emplace_back(before, 1);
      for (const int i : problem_.graph.node(k - 1).inputs) {
        terms.emplace_back(freed(t, i, k - 1), -bytes(i));
      }
    }
    milp_.row(0, terms, 0);
    before = level;
  }
}

// 1 if the value leaves right after `to` has read it: if nothing hinders it.
int Original::freed(int t, int from, int to) {
  const int column = milp_.binary(0);
  Terms hindrances{{at(t, to).made, -1}};  // 1 - made
  double most = 1;
  if (t + 1 < nodes_) hindrances.emplace_back(at(t + 1, from).ram, 1);
  if (t + 1 < nodes_) ++most;
  for (const int user : users_[static_cast<std::size_t>(from)]) {
    if (user <= to) continue;
    hindrances.emplace_back(at(t, user).made, 1);
    ++most;
  }
  Terms all = hindrances;
  all.emplace_back(column, 1);
  milp_.at_least(0, all);  // 1 - freed <= hindrances
  hindrances.emplace_back(column, most);
  milp_.at_most(hindrances, most - 1);  // most x (1 - freed) >= hindrances
  return column;
}

}  // namespace

Milp original_form(const Problem& problem) {
  return Original(problem).build();
}

}  // namespace trireme::poet
