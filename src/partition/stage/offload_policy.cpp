// Nothing is run twice: stages keep everything, and what does not fit moves.
// SPDX-License-Identifier: Apache-2.0
#include "stage_policy.h"
#include "sub_chains.h"

#include "trireme/program/generate.h"
#include "trireme/solve/stage.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace trireme::partition {
namespace {

class OffloadPolicy final : public StagePolicy {
 public:
  explicit OffloadPolicy(const chain::Chain& chain) : chain_(chain), sub_chains_(chain) {}

  double time(const StageQuestion& question) override;
  std::optional<program::StageProgram> program(const StageQuestion& question) override;
  Bytes least_memory(int first, int last, int in_flight) override {
    return needs(first, last).memory(in_flight);
  }

 private:
  const StageNeeds& needs(int first, int last) {
    const int alike = sub_chains_.earliest(first, last);
    const auto [found, is_new] = needs_.try_emplace({alike, last - first});
    if (is_new) found->second = prepared(chain_, program::keep_all(first, last)).needs;
    return found->second;
  }

  const chain::Chain& chain_;
  SubChains sub_chains_;
  std::map<std::pair<int, int>, StageNeeds> needs_;
  std::map<std::tuple<int, int, Bytes, int, double, double, Bytes>,
           std::optional<program::StageProgram>>
      programs_;
};

// What is over has to leave in time: of each micro-batch in flight its share, of which the working
// one may have its own elsewhere as well.
double OffloadPolicy::time(const StageQuestion& question) {
  const StageNeeds& all = needs(question.first, question.last);
  const Bytes over = all.memory(question.in_flight) - question.memory;
  if (over <= Bytes(0)) return all.time();
  if (!question.link) return kNever;
  const Bytes each = over / question.in_flight;
  if (each > all.kept || each > question.link->capacity) return kNever;
  return std::max(
      {all.time(), (each / question.link->out).count(), (each / question.link->in).count()});
}

std::optional<program::StageProgram> OffloadPolicy::program(const StageQuestion& question) {
  const program::StageProgram keeping = program::keep_all(question.first, question.last);
  if (needs(question.first, question.last).memory(question.in_flight) <= question.memory)
    return keeping;
  if (time(question) == kNever) return std::nullopt;
  const int alike = sub_chains_.earliest(question.first, question.last);
  const auto [found, is_new] = programs_.try_emplace(
      {alike, question.last - question.first, question.memory, question.in_flight,
       question.link->out.count(), question.link->in.count(), question.link->capacity});
  if (is_new) {
    const solve::StageProblem problem{.first_layer = question.first,
                                      .last_layer = question.last,
                                      .memory = question.memory,
                                      .in_flight = question.in_flight,
                                      .link = question.link};
    if (auto solution = solve::with_kept_moved(chain_, problem, keeping))
      found->second = std::move(solution->program);
  }
  if (!found->second) return std::nullopt;
  return program::moved_to(*found->second, question.first);
}

}  // namespace

std::unique_ptr<StagePolicy> offload_policy(const chain::Chain& chain) {
  return std::make_unique<OffloadPolicy>(chain);
}

}  // namespace trireme::partition
