// SPDX-License-Identifier: Apache-2.0
#include "layer_table.h"

#include "rows.h"

#include "trireme/core/text.h"
#include "trireme/report/text.h"
#include "trireme/simulate/ledger.h"

#include <cstddef>
#include <initializer_list>
#include <utility>

namespace trireme::report {
namespace {

using program::Action;
using program::Op;
using simulate::Value;

struct Fate {
  int forwards = 0;
  std::string held;  ///< from forward to backward
  Bytes moved;
};

/// Mean time of a layer's runs.
struct Mean {
  Seconds sum;
  int runs = 0;
};
struct Measured {
  Mean forward, backward;
};

/// By layer, from first - 1 on.
std::vector<Fate> fates_of(const chain::Chain& chain, const program::StageProgram& program);
void count_actions(const chain::Chain& chain, const std::vector<Action>& actions, int first,
                   std::vector<Fate>& fates);
void note_pause(const chain::Chain& chain, const program::StageProgram& program,
                std::vector<Fate>& fates);
/// By layer, from first - 1 on, over all runs on all ranks.
std::vector<Measured> measured_times(const program::StageProgram& program,
                                     const simulate::Simulation& step);
std::string text(const Mean& mean);

}  // namespace

std::vector<std::vector<std::string>> layer_rows(const chain::Chain& chain,
                                                 const plan::StagePlan& stage,
                                                 const simulate::Simulation* measured) {
  const program::StageProgram& program = stage.program;
  std::vector<std::vector<std::string>> rows{{"layer", "name", "forward"}};
  const auto add_to_head = [&](std::initializer_list<const char*> names) {
    rows.front().insert(rows.front().end(), names.begin(), names.end());
  };
  if (measured != nullptr) add_to_head({"measured"});
  add_to_head({"backward"});
  if (measured != nullptr) add_to_head({"measured"});
  add_to_head({"output", "tape", "kept until backward", "forwards", "recompute", "moved"});
  const std::vector<Fate> fates = fates_of(chain, program);
  std::vector<Measured> times;
  if (measured != nullptr) times = measured_times(program, *measured);
  for (int i = program.first_layer; i <= program.last_layer; ++i) {
    const auto place = static_cast<std::size_t>(i - program.first_layer + 1);
    const Fate& fate = fates[place];
    const chain::LayerCost& cost = chain.layer(i);
    const double again = fate.forwards > 1 ? fate.forwards - 1 : 0;
    std::vector<std::string> row{concat(i), cost.name, time_text(cost.forward)};
    if (measured != nullptr) row.push_back(text(times[place].forward));
    row.push_back(time_text(cost.backward));
    if (measured != nullptr) row.push_back(text(times[place].backward));
    for (std::string cell :
         {to_text(cost.output), to_text(cost.tape), fate.held, concat(fate.forwards),
          again > 0 ? time_text(cost.forward * again) : "",
          fate.moved > Bytes(0) ? to_text(fate.moved) : ""})
      row.push_back(std::move(cell));
    rows.push_back(std::move(row));
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
    if (action.op == Op::kOffloadTape) fate.moved += chain.layer(action.layer).tape_moves();
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
    // x[last] held by itself goes to the next stage or into the loss.
    if (!tape && (value.kind != Value::Kind::kOutput || value.layer == last)) continue;
    std::string& held = fates[static_cast<std::size_t>(value.layer - first + 1)].held;
    held += concat(held.empty() ? "" : ", ", tape ? "tape" : "output",
                   value.offloaded ? " offloaded" : "");
  }
}

std::vector<Measured> measured_times(const program::StageProgram& program,
                                     const simulate::Simulation& step) {
  std::vector<Measured> times(
      static_cast<std::size_t>(program.last_layer - program.first_layer + 2));
  for (const simulate::Event& event : step.events) {
    const int i = event.action.layer;
    if (i < program.first_layer || i > program.last_layer) continue;
    const Kind kind = kind_of(event);
    Measured& layer = times[static_cast<std::size_t>(i - program.first_layer + 1)];
    const bool forward = kind == Kind::kForward || kind == Kind::kRecompute;
    if (!forward && kind != Kind::kBackward && kind != Kind::kWeights) continue;
    Mean& mean = forward ? layer.forward : layer.backward;
    mean.sum += event.end - event.begin;
    if (kind != Kind::kWeights) ++mean.runs;  // the second part of a split backward
  }
  return times;
}

std::string text(const Mean& mean) {
  return mean.runs == 0 ? "" : time_text(mean.sum / static_cast<double>(mean.runs));
}

}  // namespace
}  // namespace trireme::report
