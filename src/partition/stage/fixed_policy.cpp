// Policies without a choice, and what a program needs.
// SPDX-License-Identifier: Apache-2.0
#include "stage_policy.h"
#include "sub_chains.h"

#include "trireme/core/error.h"
#include "trireme/program/retape.h"
#include "trireme/simulate/replay.h"

#include <map>
#include <utility>

namespace trireme::partition {
namespace {

class FixedPolicy final : public StagePolicy {
 public:
  FixedPolicy(const chain::Chain& chain, ProgramMaker maker)
      : chain_(chain), maker_(std::move(maker)), sub_chains_(chain) {}

  double time(const StageQuestion& question) override {
    const StageNeeds& needs = of(question.first, question.last);
    return needs.memory(question.in_flight) <= question.memory ? needs.time() : kNever;
  }
  std::optional<program::StageProgram> program(const StageQuestion& question) override {
    if (time(question) == kNever) return std::nullopt;
    return maker_(question.first, question.last);
  }
  Bytes least_memory(int first, int last, int in_flight) override {
    return of(first, last).memory(in_flight);
  }

 private:
  const StageNeeds& of(int first, int last) {
    const int alike = sub_chains_.earliest(first, last);
    const auto [found, is_new] = needs_.try_emplace({alike, last - first});
    if (is_new) found->second = prepared(chain_, maker_(first, last)).needs;
    return found->second;
  }

  const chain::Chain& chain_;
  ProgramMaker maker_;
  SubChains sub_chains_;
  std::map<std::pair<int, int>, StageNeeds> needs_;
};

}  // namespace

std::unique_ptr<StagePolicy> fixed_policy(const chain::Chain& chain, ProgramMaker maker) {
  return std::make_unique<FixedPolicy>(chain, std::move(maker));
}

Prepared prepared(const chain::Chain& chain, program::StageProgram program) {
  program = program::with_retapes(std::move(program), chain);
  const simulate::Replay replay = simulate::replay(chain, program);
  ensure(!replay.fault, replay.fault ? simulate::to_text(*replay.fault) : "");
  return {.program = std::move(program),
          .needs = {.forward = replay.forward,
                    .backward = replay.backward,
                    .kept = replay.kept,
                    .peak = replay.peak}};
}

}  // namespace trireme::partition
