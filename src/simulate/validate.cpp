// Validation: static checks, then a run of all ranks, then what must be left.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/simulate/validate.h"

#include "coverage.h"
#include "engine.h"
#include "shape.h"

#include "trireme/core/text.h"

#include <algorithm>

namespace trireme::simulate {

using program::Action;
using program::Op;
using program::Program;

namespace {

/// Checks budgets and what must happen exactly once.
class Proof : public Watch {
 public:
  Proof(const Program& program, const Setting& setting);

  std::optional<std::string> ran(int rank, const RankState& state) override;
  /// What is missing or left over once all ranks have ended.
  std::optional<ProgramFault> incomplete(const Engine& engine) const;

 private:
  std::optional<std::string> over_budget(int rank, const Execution& execution) const;
  /// A pass of a layer on `rank` that some micro-batch lacks.
  std::optional<std::string> missing_pass(int rank, int layer, const Coverage& forwards) const;

  const Program& program_;
  const Setting& setting_;
  bool trains_;
  std::vector<Coverage> backwards_;  // by rank
  Coverage losses_;
};

}  // namespace

std::optional<ProgramFault> validate(const Program& program, const Setting& given) {
  Setting setting = given;
  setting.is_first_step = true;
  if (auto fault = check_shape(program, setting)) return fault;
  if (auto fault = check_step_end(program)) return fault;
  if (auto fault = check_updates(program, setting)) return fault;
  Engine engine(program, setting, Detail::kSummary);
  Proof proof(program, setting);
  if (auto fault = engine.run(&proof)) return fault;
  return proof.incomplete(engine);
}

namespace {

Proof::Proof(const Program& program, const Setting& setting)
    : program_(program),
      setting_(setting),
      trains_(trains(program)),
      losses_(program.layers, program.layers) {
  for (int rank = 0; rank < static_cast<int>(program.ranks.size()); ++rank) {
    const Ledger::Scope scope = scope_of(setting, program, rank, trains_);
    backwards_.emplace_back(scope.first_layer, scope.last_layer);
  }
}

std::optional<std::string> Proof::ran(int rank, const RankState& state) {
  const auto place = static_cast<std::size_t>(rank);
  const Action& action = program_.ranks[place][state.next];
  if (program::is_backward(action.op) &&
      !backwards_[place].first_time(action.layer, action.micro_batch))
    return concat(name(action.op), ' ', action.layer, " has run already for this micro-batch");
  if (action.op == Op::kReadLoss && !losses_.first_time(action.layer, action.micro_batch))
    return "the loss of this micro-batch was read already";
  return over_budget(rank, state.execution);
}

std::optional<std::string> Proof::over_budget(int rank, const Execution& execution) const {
  const chain::RankSpec& spec = setting_.platform->ranks[static_cast<std::size_t>(rank)];
  if (spec.memory > Bytes(0) && execution.at_once() > spec.memory)
    return concat("needs ", execution.at_once().count(), " bytes (", to_text(execution.at_once()),
                  "), the budget is ", spec.memory.count(), " (", to_text(spec.memory), ")");
  const Bytes offload = spec.offload_capacity();
  const Bytes offloaded = execution.offloaded();
  if (offloaded > offload)
    return concat("needs ", offloaded.count(), " bytes in the offload tier, which has ",
                  offload.count());
  return std::nullopt;
}

std::optional<ProgramFault> Proof::incomplete(const Engine& engine) const {
  for (int rank = 0; rank < static_cast<int>(program_.ranks.size()); ++rank) {
    const auto place = static_cast<std::size_t>(rank);
    const Execution& execution = engine.ranks()[place]->execution;
    std::optional<std::string> reason;
    if (!execution.ledger().empty()) {
      const Value left = execution.ledger().values().front();
      reason = to_text(left) + (left.offloaded ? " is never brought back" : " is never freed");
    }
    if (!reason) reason = execution.weights().not_as_begun();
    for (int i = 1; i <= program_.layers && !reason; ++i) {
      if (program_.rank_of_layer[static_cast<std::size_t>(i)] == rank)
        reason = missing_pass(rank, i, execution.forwards());
    }
    if (reason)
      return ProgramFault{rank, program_.ranks[place].size(), std::nullopt, std::move(*reason)};
  }
  return std::nullopt;
}

std::optional<std::string> Proof::missing_pass(int rank, int layer,
                                               const Coverage& forwards) const {
  const Coverage& backwards = backwards_[static_cast<std::size_t>(rank)];
  for (int m = 0; m < program_.micro_batches; ++m) {
    if (!forwards.has(layer, m))
      return concat("micro-batch ", m, " never runs forward through layer ", layer);
    if (trains_ && !backwards.has(layer, m))
      return concat("micro-batch ", m, " never runs backward through layer ", layer);
    if (layer == program_.layers && !losses_.has(layer, m))
      return concat("the loss of micro-batch ", m, " is never read");
  }
  return std::nullopt;
}

}  // namespace
}  // namespace trireme::simulate
