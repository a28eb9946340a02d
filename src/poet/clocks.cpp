// SPDX-License-Identifier: Apache-2.0
#include "clocks.h"

#include <algorithm>
#include <cstddef>

namespace trireme::poet {

Clocks::Clocks(const graph::Problem& problem, const Question& question, const Scale& scale,
               Milp& milp)
    : problem_(problem),
      question_(question),
      scale_(scale),
      milp_(milp),
      horizon_(scale(std::min(problem.deadline * (1 + kSlack), question.horizon))),
      values_(problem.graph.nodes.size()),
      now_(clock()),
      in_free_(now_),
      out_free_(now_) {}

void Clocks::pause() {
  const int now = clock();
  after(now, now_);
  now_ = now;
}

void Clocks::read(int node, int column) {
  const double duration = scale_(problem_.cost(node).in);
  const int free = clock(), ready = clock();
  after(free, in_free_, duration, column);
  after(free, now_, duration, column);
  after_if(ready, free, column);
  if (value(node).ready >= 0) after(ready, value(node).ready);
  value(node).ready = ready;
  in_free_ = free;
}

void Clocks::compute(int node, int column, const std::vector<int>& inputs) {
  const int start = clock(), end = clock();
  after(start, now_);
  for (const int input : inputs) {
    if (value(input).ready < 0) continue;
    if (column == Event::kAlways) {
      after(start, value(input).ready);
    } else {
      after_if(start, value(input).ready, column);
    }
  }
  after(end, start, scale_(problem_.cost(node).time), column);
  now_ = end;
}

void Clocks::copy_out(int node, int column) {
  const double duration = scale_(problem_.cost(node).out);
  const int free = clock();
  after(free, out_free_, duration, column);
  after(free, now_, duration, column);
  value(node).out = column;
  value(node).left = out_free_ = free;
}

void Clocks::leave(int node, int stays) {
  const Value& gone = value(node);
  if (gone.out < 0) return;
  // now >= left - horizon x (1 - out) - horizon x stays
  milp_.at_least(-horizon_, {{now_, 1}, {gone.left, -1}, {gone.out, -horizon_}, {stays, horizon_}});
}

void Clocks::end() {
  const int end = milp_.column({price() / scale_.second, 0, horizon_, false});
  for (const int clock : {now_, in_free_, out_free_}) after(end, clock);
}

double Clocks::price() const {
  switch (question_.aim) {
    case Aim::kEnergy:
      return scale_.objective * problem_.idle.count();
    case Aim::kTime:
      return scale_.objective;
    case Aim::kMemory:
      return 0;
  }
  return 0;
}

// A column of -1 is one that is always 1.
void Clocks::after(int later, int earlier, double duration, int column) {
  Terms terms{{later, 1}, {earlier, -1}};
  if (column >= 0) terms.emplace_back(column, -duration);
  milp_.at_least(column >= 0 ? 0 : duration, terms);
}

void Clocks::after_if(int later, int earlier, int condition) {
  milp_.at_least(-horizon_, {{later, 1}, {earlier, -1}, {condition, -horizon_}});
}

}  // namespace trireme::poet
