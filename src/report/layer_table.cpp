// SPDX-License-Identifier: Apache-2.0
#include "layer_table.h"

#include "trireme/core/text.h"
#include "trireme/report/text.h"
#include "trireme/simulate/ledger.h"

#include <cstddef>

namespace trireme::report {
namespace {

using program::Action;
using program::Op;
using simulate::Value;

struct Fate {
  int forwards = 0;
  std::string held;  ///< at the pause
  Bytes moved;
};

/// By layer from first - 1 on.
std::vector<Fate> fates_of(const chain::Chain& chain, const program::StageProgram& program);
void count_actions(const chain::Chain& chain, const std::vector<Action>& actions, int first,
                   std::vector<Fate>& fates);
void note_pause(const chain::Chain& chain, const program::StageProgram& program,
                std::vector<Fate>& fates);

}  // namespace

std::vector<std::vector<std::string>> layer_rows(const chain::Chain& chain,
                                                 const program::StageProgram& program) {
  std::vector<std::vector<std::string>> rows{{"layer", "name", "forward", "backward", "output",
                                              "tape", "held at the pause", "forwards", "recompute",
                                              "moved"}};
  const std::vector<Fate> fates = fates_of(chain, program);
  for (int i = program.first_layer; i <= program.last_layer; ++i) {
    const Fate& fate = fates[static_cast<std::size_t>(i - program.first_layer + 1)];
    const chain::LayerCost& cost = chain.layer(i);
    const double again = fate.forwards > 1 ? fate.forwards - 1 : 0;
    rows.push_back({concat(i), cost.name, time_text(cost.forward), time_text(cost.backward),
                    to_text(cost.output), to_text(cost.tape), fate.held, concat(fate.forwards),
                    again > 0 ? time_text(cost.forward * again) : "",
                    fate.moved > Bytes(0) ? to_text(fate.moved) : ""});
  }
  return rows;
}

namespace {

std::vector<Fate> fates_of(const chain::Chain& chain, const program::StageProgram& program) {
  std::vector<Fate> fates(static_cast<std::size_t>(program.last_layer - program.first_layer + 2));
  count_actions(chain, program.forward, program.first_layer, fates);
  count_actions(chain, program.backward, program.first_layer, fates);
  note_pause(chain, program, fates);
  return fates;
}

void count_actions(const chain::Chain& chain, const std::vector<Action>& actions, int first,
                   std::vector<Fate>& fates) {
  for (const Action& action : actions) {
    Fate& fate = fates[static_cast<std::size_t>(action.layer - first + 1)];
    if (program::is_forward(action.op)) ++fate.forwards;
    if (action.op == Op::kOffload) fate.moved += chain.output(action.layer);
    if (action.op == Op::kOffloadTape) fate.moved += chain.layer(action.layer).tape;
  }
}

void note_pause(const chain::Chain& chain, const program::StageProgram& program,
                std::vector<Fate>& fates) {
  const int first = program.first_layer, last = program.last_layer;
  simulate::Ledger ledger(chain, {.first_layer = first, .last_layer = last});
  ledger.apply({first == 1 ? Op::kLoadInput : Op::kReceiveInput, first - 1});
  for (const Action& action : program.forward) ledger.apply(action);
  for (const Value& value : ledger.values()) {
    const bool tape = value.kind == Value::Kind::kTape;
    // x[last] that stands by itself goes on to the next stage or into the loss.
    if (!tape && (value.kind != Value::Kind::kOutput || value.layer == last)) continue;
    std::string& held = fates[static_cast<std::size_t>(value.layer - first + 1)].held;
    held += concat(held.empty() ? "" : ", ", tape ? "tape" : "output", value.away ? " away" : "");
  }
}

}  // namespace
}  // namespace trireme::report
