// SPDX-License-Identifier: Apache-2.0
#include "advice.h"

#include "judge/judge.h"
#include "memory/offload.h"
#include "stage/stage_room.h"

#include "trireme/core/text.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace trireme::partition {
namespace {

Question with_host(Question question, Bytes host) {
  for (chain::RankSpec& rank : question.platform.ranks) rank.host = std::max(rank.host, host);
  return question;
}

/// Bytes of state and weights that are offloaded throughout a step, on the rank with most.
Bytes most_offloaded(const chain::Chain& chain, const plan::Plan& plan) {
  const std::vector<Bytes> state = plan::offloaded_optimizer(plan);
  Bytes most;
  for (std::size_t rank = 0; rank < state.size(); ++rank)
    most = std::max(most, chain::state_room(chain, kUnlimited, state[rank]) +
                              plan::streamed_weights(plan, chain, static_cast<int>(rank)));
  return most;
}

/// Host memory sizes that may suffice for a plan, ascending; the last holds all that it moves.
std::vector<Bytes> offload_sizes(const Question& question, const plan::Plan& plan) {
  const simulate::Simulation simulation = simulated(question, plan, simulate::Detail::kFigures);
  Bytes all;
  for (const simulate::RankResult& rank : simulation.ranks)
    all = std::max(all, rank.offloaded.all());
  std::vector<Bytes> sizes;
  for (const Bytes size : {most_offloaded(question.chain, with_room_used(question, plan)),
                           most_offloaded(question.chain, plan), all})
    if (sizes.empty() || with_margin(size) > sizes.back()) sizes.push_back(with_margin(size));
  return sizes;
}

/// What a plan offloads: "weights with their gradients and the optimizer's state".
std::string offload_text(const chain::Chain& chain, const plan::Plan& plan) {
  std::vector<std::string> parts;
  const std::vector<chain::OffloadWeights> streamed = plan::streamed_weights(plan, chain);
  const auto is_trained = [](const chain::OffloadWeights& one) { return one.is_trained; };
  if (!streamed.empty())
    parts.emplace_back(std::any_of(streamed.begin(), streamed.end(), is_trained)
                           ? "weights with their gradients"
                           : "frozen weights");
  if (has_offloaded_state(plan)) parts.emplace_back("the optimizer's state");
  if (std::any_of(plan.stages.begin(), plan.stages.end(),
                  [](const plan::StagePlan& one) { return one.predicted.offloaded > Bytes(0); }))
    parts.emplace_back("activations");
  return enumerated(parts);
}

/// Advice to give every rank host memory, at most `host` bytes, with which `propose` found a plan.
/// Empty where `host` bytes are not enough.
std::optional<plan::Advice> host_advice(const Question& question, Bytes host,
                                        const Planner& propose) {
  const Question generous = with_host(question, host);
  const Answer answer = propose(generous);
  const auto* const found = std::get_if<plan::Plan>(&answer);
  if (found == nullptr) return std::nullopt;
  Bytes enough = host;
  for (const Bytes size : offload_sizes(generous, *found)) {
    if (size >= host ||
        std::holds_alternative<plan::Infeasible>(propose(with_host(question, size))))
      continue;
    enough = size;
    break;
  }
  const std::string contents = offload_text(question.chain, *found);
  if (contents.empty()) return std::nullopt;  // host memory is not what it lacked
  return plan::Advice{
      plan::Advice::Kind::kHostMemory,
      concat(to_text(enough), " (", enough.count(), " bytes) of host memory for ", contents),
      enough};
}

/// Assumes copy rates for ranks without any, so that host memory can be advised; ranks with copies
/// in one direction are unchanged.
void assume_lanes(Question& question) {
  for (chain::RankSpec& rank : question.platform.ranks)
    if (rank.out == BytesPerSecond(0) && rank.in == BytesPerSecond(0))
      rank.out = rank.in = BytesPerSecond(1e9);
}

}  // namespace

std::optional<plan::Advice> host_advice_for(const Question& question, const Planner& propose) {
  Question asked = settled(question, plainest(question));
  assume_lanes(asked);
  const Bytes state = chain::optimizer_bytes(question.chain, 1, question.chain.length());
  const bool may_move = !question.optimizer_copies;
  if (may_move && state > Bytes(0)) {
    asked.optimizer_copies = kAnyTime;
    if (auto alone = host_advice(asked, with_margin(state), propose)) return alone;
  }
  const std::vector<int> layers = all_to_stream(question.chain);
  if (question.streamed || layers.empty()) return std::nullopt;
  asked.streamed = layers;
  const Bytes all = with_margin(streamed_bytes(asked, layers).outside + state);
  if (may_move) {
    asked.optimizer_copies = Seconds(0);
    if (auto alone = host_advice(asked, all, propose)) return alone;
    asked.optimizer_copies = kAnyTime;
  }
  return host_advice(asked, all, propose);
}

}  // namespace trireme::partition
