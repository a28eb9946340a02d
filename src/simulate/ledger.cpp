// Interface of a ledger: scope, names, lists of what is held. The rules are in rules.cpp.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/simulate/ledger.h"

#include "ledger_state.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

namespace trireme::simulate {

using chain::Chain;
using program::Action;
using program::Op;

namespace {

Ledger::Outcome refuse(std::string reason) {
  return {std::move(reason), {}};
}

}  // namespace

std::string name(const Value& value) {
  switch (value.kind) {
    case Value::Kind::kOutput:
      return concat("x[", value.layer, "]");
    case Value::Kind::kTape:
      return concat("tape ", value.layer);
    case Value::Kind::kGradient:
      return concat("gradient of x[", value.layer, "]");
    case Value::Kind::kTarget:
      return "target";
    case Value::Kind::kStays:
      return concat("what stays of tape ", value.layer);
    case Value::Kind::kPending:
      return concat("operands of the weight gradients of layer ", value.layer);
  }
  throw LogicError("a value without a name");
}

std::string to_text(const Value& value) {
  return concat(name(value), " of micro-batch ", value.micro_batch);
}

Ledger::Ledger(const Chain& chain, Scope scope) : state_(std::make_unique<State>(chain, scope)) {}
Ledger::Ledger(const Ledger& other) : state_(std::make_unique<State>(*other.state_)) {}
Ledger::Ledger(Ledger&&) noexcept = default;
Ledger& Ledger::operator=(Ledger&&) noexcept = default;
Ledger::~Ledger() = default;

Bytes Ledger::held() const {
  return state_->held;
}
Bytes Ledger::offloaded() const {
  return state_->offloaded;
}
bool Ledger::empty() const {
  return state_->cells.count() == 0;
}

Ledger::Outcome Ledger::apply(const Action& action) {
  const Scope& scope = state_->scope;
  const bool runs_layer = program::is_forward(action.op) || program::adds_gradients(action.op) ||
                          action.op == Op::kOffloadTape || action.op == Op::kPrefetchTape ||
                          action.op == Op::kUpdate;
  if (!program::is_of_pass(action.op) && action.op != program::Op::kUpdate) {
    const Bytes held = state_->held;
    return {std::nullopt, {action.op == program::Op::kStep ? held + scope.step : held, held}};
  }
  const int lowest = runs_layer ? scope.first_layer : scope.first_layer - 1;
  if (action.layer < lowest || action.layer > scope.last_layer)
    return refuse(concat(runs_layer ? "layer " : "output ", action.layer, " is not in ", lowest,
                         "..", scope.last_layer));
  if (action.micro_batch < 0) return refuse(concat("micro-batch ", action.micro_batch));
  state_->cells.open(action.micro_batch);
  Outcome outcome = state_->run(action);
  state_->cells.close();
  return outcome;
}

std::vector<Value> Ledger::values() const {
  std::vector<Value> values;
  const Chain& chain = state_->chain;
  state_->cells.for_each([&](int i, int micro_batch, Mark mark) {
    switch (mark) {
      case Mark::kOutput:
      case Mark::kOutputOffloaded:
        values.push_back({Value::Kind::kOutput, i, micro_batch, chain.output(i),
                          mark == Mark::kOutputOffloaded});
        break;
      case Mark::kTape:
        values.push_back({Value::Kind::kTape, i, micro_batch, chain.layer(i).tape});
        break;
      case Mark::kTapeOffloaded: {
        const chain::LayerCost& layer = chain.layer(i);
        values.push_back({Value::Kind::kTape, i, micro_batch, layer.tape_moves(), true});
        if (layer.tape_stays > Bytes(0))
          values.push_back({Value::Kind::kStays, i, micro_batch, layer.tape_stays});
        break;
      }
      case Mark::kBareTape:
        values.push_back({Value::Kind::kTape, i, micro_batch, chain.layer(i).again().tape});
        break;
      case Mark::kGradient:
        values.push_back({Value::Kind::kGradient, i, micro_batch, chain.output(i)});
        break;
      case Mark::kTarget:
        values.push_back({Value::Kind::kTarget, i, micro_batch, Bytes(0)});
        break;
      case Mark::kPending:
        values.push_back(
            {Value::Kind::kPending, i, micro_batch, chain.layer(i).in_parts().pending});
        break;
    }
  });
  return values;
}

}  // namespace trireme::simulate
