// Policies with fixed recomputation, and the needs of a program.
// SPDX-License-Identifier: Apache-2.0
#include "stage_policy.h"
#include "sub_chains.h"
#include "values/lookup.h"

#include "trireme/core/error.h"
#include "trireme/program/generate.h"
#include "trireme/program/retape.h"
#include "trireme/simulate/replay.h"
#include "trireme/solve/stage.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace trireme::partition {
namespace {

class FixedPolicy : public StagePolicy {
 public:
  FixedPolicy(const chain::Chain& chain, ProgramMaker maker)
      : chain_(chain), alike_(chain), maker_(std::move(maker)) {}

  Seconds time(const StageQuestion& question) override {
    return fits(question) ? needs(question.layers).time() : kNever;
  }
  std::optional<program::StageProgram> program(const StageQuestion& question) override {
    if (!fits(question)) return std::nullopt;
    return maker_(question.layers.first, question.layers.last);
  }
  Bytes least_memory(chain::LayerRange layers, int in_flight) override {
    return needs(layers).memory(in_flight);
  }

 protected:
  bool fits(const StageQuestion& question) {
    return least_memory(question.layers, question.in_flight) <= question.memory;
  }
  const StageNeeds& needs(chain::LayerRange layers) {
    return once(needs_, alike_.earliest(layers),
                [&] { return prepared(chain_, maker_(layers.first, layers.last)).needs; });
  }

  const chain::Chain& chain_;
  SubChains alike_;

 private:
  ProgramMaker maker_;
  std::map<chain::LayerRange, StageNeeds> needs_;
};

/// No recomputation: stages keep everything and offload what does not fit.
class OffloadPolicy final : public FixedPolicy {
 public:
  explicit OffloadPolicy(const chain::Chain& chain) : FixedPolicy(chain, program::keep_all) {}

  // The excess must be copied in time: each micro-batch in flight takes its share, the working one
  // included.
  Seconds time(const StageQuestion& question) override {
    const StageNeeds& all = needs(question.layers);
    if (fits(question)) return all.time();
    if (!question.link) return kNever;
    const Bytes each = (all.memory(question.in_flight) - question.memory) / question.in_flight;
    if (each > all.kept || each > question.link->capacity) return kNever;
    return std::max({all.time(), each / question.link->out, each / question.link->in});
  }
  std::optional<program::StageProgram> program(const StageQuestion& question) override {
    if (fits(question)) return FixedPolicy::program(question);
    if (time(question) == kNever) return std::nullopt;
    const Moved& moved = once(moved_,
                              {alike_.earliest(question.layers), question.memory,
                               question.in_flight, key_of(question.link)},
                              [&] { return with_kept_moved(question); });
    if (!moved) return std::nullopt;
    return program::moved_to(*moved, question.layers.first);
  }

 private:
  using Moved = std::optional<program::StageProgram>;

  Moved with_kept_moved(const StageQuestion& question) const {
    const solve::StageProblem problem{.layers = question.layers,
                                      .memory = question.memory,
                                      .in_flight = question.in_flight,
                                      .link = question.link};
    auto solution = solve::with_kept_moved(
        chain_, problem, program::keep_all(question.layers.first, question.layers.last));
    if (!solution) return std::nullopt;
    return std::move(solution->program);
  }

  std::map<std::tuple<chain::LayerRange, Bytes, int, LinkKey>, Moved> moved_;
};

}  // namespace

std::unique_ptr<StagePolicy> fixed_policy(const chain::Chain& chain, ProgramMaker maker) {
  return std::make_unique<FixedPolicy>(chain, std::move(maker));
}

std::unique_ptr<StagePolicy> offload_policy(const chain::Chain& chain) {
  return std::make_unique<OffloadPolicy>(chain);
}

Prepared prepared(const chain::Chain& chain, program::StageProgram program,
                  const std::optional<solve::HostLink>& link) {
  program = program::with_retapes(std::move(program), chain);
  simulate::CopyLanes lanes;
  if (link) lanes = {.out = link->out, .in = link->in, .budget = std::nullopt};
  const simulate::Replay replay = simulate::replay(chain, program, lanes);
  ensure(!replay.fault, replay.fault ? simulate::to_text(*replay.fault) : "");
  return {.program = std::move(program),
          .needs = {.forward = replay.forward,
                    .backward = replay.backward,
                    .kept = replay.kept,
                    .peak = replay.peak,
                    .moved = replay.moved}};
}

}  // namespace trireme::partition
