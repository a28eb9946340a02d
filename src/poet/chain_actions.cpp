// From a label of a chain's tables to what is computed and copied.
// SPDX-License-Identifier: Apache-2.0
#include "chain_tables.h"

namespace trireme::poet {

using graph::Op;

class ChainTables::Writing {
 public:
  explicit Writing(const ChainTables& tables) : tables_(tables) {}
  graph::Schedule operator()(int label) &&;

 private:
  void write(const Rest& rest);
  void begin(const Part& part, const Choice& choice);
  void backward(const Part& part);
  void run(int first, int at, bool is_sent);
  void access(int output);
  void act(Op op, int node) { actions_.push_back({op, node}); }

  const ChainTables& tables_;
  graph::Schedule actions_{};
};

graph::Schedule ChainTables::actions_of(int label) const {
  return Writing(*this)(label);
}

graph::Schedule ChainTables::Writing::operator()(int label) && {
  const Choice& choice = tables_.whole()[static_cast<std::size_t>(label)].choice;
  run(-1, 0, choice.move == Move::kRunAndSend);
  write(choice.then);
  return std::move(actions_);
}

void ChainTables::Writing::write(const Rest& rest) {
  if (rest.front < 0) return;
  const Choice& choice = tables_.front(rest.front)[static_cast<std::size_t>(rest.label)].choice;
  begin(tables_.part_of(rest.front), choice);
  write(choice.then);
  write(choice.last);
}

void ChainTables::Writing::begin(const Part& part, const Choice& choice) {
  const bool is_cold = part.source == Source::kCold;
  switch (choice.move) {
    case Move::kPass:
      return;
    case Move::kFetch:
      return access(part.first);
    case Move::kSend:
      return act(Op::kCopyOut, tables_.links_.backward(part.last + 1));
    case Move::kBackward:
      return backward(part);
    case Move::kRun:
    case Move::kRunAndSend:
      if (is_cold) access(part.first);
      return run(part.first, choice.at, choice.move == Move::kRunAndSend);
  }
}

void ChainTables::Writing::backward(const Part& part) {
  const Links& links = tables_.links_;
  const bool reads_source = part.first == part.last - 1 && links.needs_input(part.last);
  if (reads_source && part.source == Source::kCold) access(part.first);
  if (part.target == Target::kOutside) act(Op::kCopyIn, part.last);
  if (part.gradient == Gradient::kOutside) act(Op::kCopyIn, links.backward(part.last + 1));
  act(Op::kCompute, links.backward(part.last));
}

void ChainTables::Writing::run(int first, int at, bool is_sent) {
  for (int layer = first + 1; layer <= at; ++layer) act(Op::kCompute, layer);
  if (is_sent) act(Op::kCopyOut, at);
}

void ChainTables::Writing::access(int output) {
  const bool is_made = output == 0 && tables_.question_.input_is_made_again;
  act(is_made ? Op::kCompute : Op::kCopyIn, output);
}

ChainTables::Part ChainTables::part_of(int front) const {
  const int pairs = layers_ * (layers_ + 1) / 2;
  Part part{};
  const int rest = front - pairs * kWays;
  if (rest >= 0) {
    return {rest / 2, layers_, rest % 2 == 0 ? Source::kHeld : Source::kWarm, Target::kAbsent,
            Gradient::kHeld};
  }
  const int way = front % kWays, pair = front / kWays;
  part.last = 1;
  while (part.last * (part.last + 1) / 2 <= pair) ++part.last;
  part.first = pair - part.last * (part.last - 1) / 2;
  part.source = static_cast<Source>(way / (kTargets * kGradients));
  part.target = static_cast<Target>(way / kGradients % kTargets);
  part.gradient = static_cast<Gradient>(way % kGradients);
  return part;
}

}  // namespace trireme::poet
