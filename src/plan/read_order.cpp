// SPDX-License-Identifier: Apache-2.0
#include "read_order.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/program/groups.h"
#include "trireme/schedule/named.h"
#include "trireme/schedule/slots.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace trireme::plan {
namespace {

/// By rank, the stage of every pass, in the order in which the rank runs them; the stage's own
/// order says which pass it is. Empty for ranks that take turns as passes of equal length would.
using Turns = std::vector<std::vector<int>>;

Turns read_turns(const io::Node& node, const Plan& plan);
/// The passes of all stages, each in its own order, in these turns.
schedule::Order in_turns(const schedule::Order& by_stage, const Turns& turns, const Plan& plan);

int groups_of(const Plan& plan) {
  return program::groups_of(plan.micro_batches, plan.group);
}

}  // namespace

void read_order(const io::Node& node, const std::vector<OldPasses>& old,
                const std::optional<io::Node>& turns, Plan& plan) {
  const auto refuse = [&](const io::Node& other) {
    other.fail("stands beside `order`, which says it all: leave it out");
  };
  for (const OldPasses& stage : old) {
    if (stage.in_flight) refuse(*stage.in_flight);
    if (stage.weights_behind) refuse(*stage.weights_behind);
  }
  if (turns) refuse(*turns);
  schedule::Order order;
  // At most three passes of each stage and micro-batch: F, I, W.
  const auto most = static_cast<std::int64_t>(plan.stages.size()) * groups_of(plan) * 3;
  std::vector<std::string> ranks;
  for (const io::Node& rank : node.list()) ranks.push_back(rank.text());
  try {
    for (const std::string& passes : ranks)
      order.push_back(schedule::parse_passes(
          passes, static_cast<int>(std::min<std::int64_t>(most, kMaxActions))));
    schedule::require_sound(order, placement(plan));
  } catch (const InputError& error) {
    node.fail(concat("is not an order of passes of these stages: ", error.what()));
  }
  const int micro_batches = schedule::micro_batches_of(order, placement(plan));
  if (micro_batches != groups_of(plan))
    node.fail(concat("is for ", micro_batches, " micro-batches or groups of them, must be for ",
                     groups_of(plan)));
  set_order(plan, std::move(order));
}

void read_old_order(const std::vector<OldPasses>& old, const std::optional<io::Node>& turns,
                    const io::Node& stages, Plan& plan) {
  const schedule::PipelineShape shape{static_cast<int>(plan.stages.size()), groups_of(plan)};
  std::vector<int> in_flight;
  std::vector<std::optional<int>> deferred;
  for (const OldPasses& stage : old) {
    const int usual =
        schedule::usual_in_flight(plan.schedule, shape, static_cast<int>(in_flight.size()));
    const int count =
        stage.in_flight ? static_cast<int>(stage.in_flight->integer(1, kMaxMicroBatches)) : usual;
    if (plan.schedule == "gpipe" && count != usual)
      stage.in_flight->fail(concat("is ", count, ", must be ", usual,
                                   " or left out: gpipe has all micro-batches in flight"));
    in_flight.push_back(count);
    deferred.emplace_back();
    if (stage.weights_behind)
      deferred.back() = static_cast<int>(stage.weights_behind->integer(0, kMaxMicroBatches));
  }
  const schedule::Placement ranks = placement(plan);
  for (std::size_t k = 0; k < old.size(); ++k)
    if (deferred[k] && std::count(ranks.begin(), ranks.end(), ranks[k]) > 1)
      old[k].weights_behind->fail(concat("is ", *deferred[k], ", but its rank, ", ranks[k],
                                         ", has several stages: leave it out, or give `order`"));
  const std::optional<Turns> given = turns ? std::optional(read_turns(*turns, plan)) : std::nullopt;
  try {
    const schedule::Order by_stage =
        schedule::one_f_one_b_with(in_flight, shape.micro_batches, deferred);
    set_order(plan, given ? in_turns(by_stage, *given, plan) : schedule::on_ranks(by_stage, ranks));
  } catch (const InputError& error) {
    stages.fail(concat("cannot run in this order: ", error.what()));
  }
}

namespace {

Turns read_turns(const io::Node& node, const Plan& plan) {
  Turns turns(static_cast<std::size_t>(ranks_of(plan)));
  for (const io::Node& element : node.list()) {
    io::MapReader map(element);
    const auto rank = static_cast<std::size_t>(map.required("rank").integer(0, ranks_of(plan) - 1));
    const io::Node stages = map.required("stages");
    map.finish();
    if (!turns[rank].empty()) element.fail_at("rank", concat("is ", rank, " for the second time"));
    for (const io::Node& stage : stages.list()) {
      const auto number = static_cast<int>(stage.integer(0, std::ssize(plan.stages) - 1));
      if (plan.stages[static_cast<std::size_t>(number)].rank != static_cast<int>(rank))
        stage.fail(concat("is stage ", number, ", which is not on rank ", rank));
      turns[rank].push_back(number);
    }
  }
  return turns;
}

schedule::Order in_turns(const schedule::Order& by_stage, const Turns& turns, const Plan& plan) {
  schedule::Order order(turns.size());
  std::vector<std::size_t> next(by_stage.size());
  for (std::size_t rank = 0; rank < turns.size(); ++rank) {
    for (const int stage : turns[rank]) {
      const auto k = static_cast<std::size_t>(stage);
      if (next[k] == by_stage[k].size())
        throw InputError(concat("turns: rank ", rank, " has more turns of stage ", stage,
                                " than its ", next[k], " passes"));
      order[rank].push_back(by_stage[k][next[k]++]);
    }
  }
  for (std::size_t k = 0; k < by_stage.size(); ++k) {
    const auto rank = static_cast<std::size_t>(plan.stages[k].rank);
    if (next[k] == by_stage[k].size()) continue;
    if (!order[rank].empty())
      throw InputError(concat("turns: rank ", rank, " has turns for ", next[k], " of the ",
                              by_stage[k].size(), " passes of stage ", k));
    order[rank] = by_stage[k];
  }
  return order;
}

}  // namespace
}  // namespace trireme::plan
