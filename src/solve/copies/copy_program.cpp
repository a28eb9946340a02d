// Builds programs from a plan's decisions.
//
// SPDX-License-Identifier: Apache-2.0
#include "copy_program.h"

#include "judge/judge.h"
#include "returns.h"

#include "trireme/core/error.h"
#include "trireme/program/retape.h"
#include "trireme/simulate/ledger.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace trireme::solve {
namespace {

constexpr BytesPerSecond kInstant{std::numeric_limits<double>::infinity()};

using program::Action;
using program::Op;
using program::StageProgram;

class Builder {
 public:
  explicit Builder(const Problem& problem)
      : problem_(problem),
        chain_(*problem.chain),
        program_{.first_layer = problem.first_layer, .last_layer = problem.last_layer} {}
  CopyProgram build(const std::vector<CopyPart>& parts);

 private:
  void add_forward(const CopyPart& part, bool taped_input);
  void add_backward(const CopyPart& part, bool taped_input);
  void run_ledger();
  Bytes during(simulate::Ledger& ledger, const Action& action);

  const Problem& problem_;
  const chain::Chain& chain_;
  StageProgram program_;         // without the returns
  std::vector<Return> returns_;  // in the order of need
  std::vector<Bytes> during_;    // bytes of the backward actions, returns as late as possible
  Bytes needed_;
};

}  // namespace

std::vector<CopyPart> parts_of(const std::vector<CopyStep>& steps, const RedoTable* redo) {
  std::vector<CopyPart> parts;
  for (const CopyStep& step : steps) {
    const Recurrence which = step.taped ? Recurrence::kResumed : Recurrence::kWhole;
    parts.push_back({step.first, step.last, step.taped, step.leaves,
                     step.redo == nullptr
                         ? std::vector<Action>{{Op::kBackward, step.first}}
                         : redo->actions({which, step.first, step.last}, *step.redo)});
  }
  return parts;
}

CopyProgram copy_program(const Problem& problem, const std::vector<CopyPart>& parts) {
  return Builder(problem).build(parts);
}

plan::Infeasible infeasible_with_copies(const Problem& problem,
                                        const std::vector<CopyPart>& leanest) {
  Problem instant = problem;
  if (instant.link) instant.link->out = instant.link->in = kInstant;
  return infeasible(instant, copy_program(problem, leanest).program);
}

namespace {

CopyProgram Builder::build(const std::vector<CopyPart>& parts) {
  for (std::size_t k = 0; k < parts.size(); ++k) add_forward(parts[k], k > 0 && parts[k - 1].taped);
  for (std::size_t k = parts.size(); k-- > 0;) add_backward(parts[k], k > 0 && parts[k - 1].taped);
  program_ = program::with_retapes(std::move(program_), chain_);
  run_ledger();
  return_early(returns_, during_, std::max(problem_.budget, needed_));
  program_.backward = merged(program_.backward, returns_);
  Bytes moved;
  for (const Return& back : returns_) moved += back.size;
  return {std::move(program_), needed_, moved};
}

void Builder::add_forward(const CopyPart& part, bool taped_input) {
  const int i = part.first, j = part.last;
  std::vector<Action>& forward = program_.forward;
  for (int k = i; k <= j; ++k) {
    const bool taped = part.taped && k == j;
    const Op untaped = k == i ? Op::kForwardKeep : Op::kForward;
    forward.push_back({taped ? Op::kForwardTape : untaped, k});
    if (taped && k > i) forward.push_back({Op::kDrop, k - 1});
    if (k == i && part.leaves) {
      forward.push_back({taped_input ? Op::kOffloadTape : Op::kOffload, i - 1});
    }
  }
}

void Builder::add_backward(const CopyPart& part, bool taped_input) {
  if (part.leaves) {
    const int i = part.first - 1;
    returns_.push_back({{taped_input ? Op::kPrefetchTape : Op::kPrefetch, i},
                        taped_input ? chain_.layer(i).tape : chain_.output(i),
                        program_.backward.size()});
  }
  program_.backward.insert(program_.backward.end(), part.backward.begin(), part.backward.end());
}

Bytes Builder::during(simulate::Ledger& ledger, const Action& action) {
  const simulate::Ledger::Outcome outcome = ledger.apply(action);
  ensure(!outcome.fault, outcome.fault ? *outcome.fault : "");
  needed_ = std::max(needed_, outcome.effect.during);
  return outcome.effect.during;
}

// Bytes of every action if copies are instant and each return is as late as possible. The ends of
// the stage are run as in replay.
void Builder::run_ledger() {
  const int first = problem_.first_layer, last = problem_.last_layer;
  simulate::Ledger ledger(chain_, {.first_layer = first, .last_layer = last});
  during(ledger, {Op::kReceiveInput, first - 1});
  const bool with_loss = last == chain_.length();
  if (with_loss) during(ledger, {Op::kLoadTarget, last});
  const std::size_t made = program::output_made(program_);
  for (std::size_t k = 0; k < program_.forward.size(); ++k) {
    during(ledger, program_.forward[k]);
    if (k == made) during(ledger, {with_loss ? Op::kReadLoss : Op::kSendOutput, last});
  }
  if (!with_loss) during(ledger, {Op::kReceiveGradient, last});
  auto back = returns_.begin();
  for (std::size_t k = 0; k < program_.backward.size(); ++k) {
    for (; back != returns_.end() && back->before == k; ++back) during(ledger, back->action);
    during_.push_back(during(ledger, program_.backward[k]));
  }
}

}  // namespace
}  // namespace trireme::solve
