// Simulation of all ranks: times, bytes and memory peaks.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/simulate/simulate.h"

#include "engine.h"
#include "rank_weights.h"
#include "shape.h"

#include "trireme/core/text.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace trireme::simulate {

using program::Action;
using program::Op;
using program::Program;

namespace {

RankResult summary_of(const RankState& state);

Peak peak_of(const Program& program, int rank, const LanesPeak& peak);
/// What is held at that peak.
std::vector<std::pair<std::string, Bytes>> contents_of(const Program& program,
                                                       const Setting& setting, int rank,
                                                       const LanesPeak& peak);

std::vector<Event> copy_events(int rank, Lane lane, const std::vector<Copy>& copies);

/// Completes the energies once it is known when the last rank ends.
void add_waits_and_copies(Simulation& simulation, const chain::Platform& platform);

}  // namespace

Energy& Energy::operator+=(const Energy& other) {
  compute += other.compute;
  recompute += other.recompute;
  copies += other.copies;
  idle += other.idle;
  return *this;
}

Simulation simulate(const Program& program, const Setting& setting, Detail detail) {
  Simulation result;
  if ((result.fault = check_shape(program, setting))) return result;
  Engine engine(program, setting, detail);
  if ((result.fault = engine.run(nullptr))) return result;
  Seconds busy;
  for (int rank = 0; rank < static_cast<int>(program.ranks.size()); ++rank) {
    RankState& state = *engine.ranks()[static_cast<std::size_t>(rank)];
    RankResult summary = summary_of(state);
    const LanesPeak& peak = state.execution.lanes().peak();
    summary.peak = peak_of(program, rank, peak);
    if (detail != Detail::kFigures)
      summary.peak.contents = contents_of(program, setting, rank, peak);
    summary.curve = std::move(engine.curve(rank));
    busy += summary.busy;
    result.recompute += summary.recompute;
    result.step = std::max(result.step, summary.end);
    result.ranks.push_back(std::move(summary));
    std::move(state.events.begin(), state.events.end(), std::back_inserter(result.events));
    for (const Lane lane : {Lane::kOut, Lane::kIn, Lane::kWeights, Lane::kWeightsOut}) {
      const std::vector<Event> events = copy_events(rank, lane, engine.copies(rank, lane));
      result.events.insert(result.events.end(), events.begin(), events.end());
    }
  }
  if (result.step > Seconds(0))
    result.bubble = 1 - busy / (result.step * static_cast<double>(program.ranks.size()));
  add_waits_and_copies(result, *setting.platform);
  return result;
}

namespace {

RankResult summary_of(const RankState& state) {
  const Execution& execution = state.execution;
  RankResult result;
  result.busy = execution.busy();
  result.recompute = execution.recompute();
  result.wait_for_ranks = state.waited + execution.wait_for_replicas();
  result.wait_for_copies = execution.wait_for_copies();
  result.copies_out = execution.copies_out();
  result.copies_in = execution.copies_in();
  result.end = execution.now();
  result.at_once = execution.most_at_once();
  result.offloaded = execution.most_offload();
  result.moved = execution.lanes().moved();
  result.state_moved = execution.state_moved();
  result.weights_moved = execution.weights_moved();
  result.energy.compute = execution.compute_energy();
  result.energy.recompute = execution.recompute_energy();
  return result;
}

void add_waits_and_copies(Simulation& simulation, const chain::Platform& platform) {
  for (std::size_t rank = 0; rank < simulation.ranks.size(); ++rank) {
    RankResult& result = simulation.ranks[rank];
    const chain::Power& power = platform.ranks[rank].power;
    result.energy.copies = power.copy_out * result.copies_out + power.copy_in * result.copies_in;
    result.energy.idle = power.idle * (simulation.step - result.busy);
    simulation.energy += result.energy;
  }
}

/// Values of all micro-batches, grouped by kind and layer.
class Inventory {
 public:
  void add(const Value& value) {
    Entry& entry = entries_[{value.kind, value.layer}];
    entry.size += value.size;
    entry.micro_batches.push_back(value.micro_batch);
  }
  void add_all_but(const std::vector<Value>& values, const std::vector<Copy>& coming);

  /// ("tape 3 of 4 micro-batches", bytes).
  std::vector<std::pair<std::string, Bytes>> lines() const;

 private:
  struct Entry {
    Bytes size;
    std::vector<int> micro_batches;
  };
  std::map<std::pair<Value::Kind, int>, Entry> entries_;
};

void Inventory::add_all_but(const std::vector<Value>& values, const std::vector<Copy>& coming) {
  for (const Value& value : values) {
    const CopyKey key{value.kind == Value::Kind::kTape, value.layer, value.micro_batch};
    const bool copied = value.kind == Value::Kind::kTape || value.kind == Value::Kind::kOutput;
    const bool not_yet = copied && std::any_of(coming.begin(), coming.end(),
                                               [&](const Copy& copy) { return copy.key == key; });
    if (!value.offloaded && !not_yet && value.kind != Value::Kind::kTarget) add(value);
  }
}

std::vector<std::pair<std::string, Bytes>> Inventory::lines() const {
  std::vector<std::pair<std::string, Bytes>> lines;
  for (const auto& [what, entry] : entries_) {
    const Value value{what.first, what.second, entry.micro_batches.front(), entry.size};
    lines.emplace_back(
        entry.micro_batches.size() == 1
            ? to_text(value)
            : concat(name(value), " of ", entry.micro_batches.size(), " micro-batches"),
        entry.size);
  }
  return lines;
}

Peak peak_of(const Program& program, int rank, const LanesPeak& peak) {
  const std::vector<Action>& actions = program.ranks[static_cast<std::size_t>(rank)];
  Peak result{peak.size, peak.time, peak.index, {}, {}};
  if (peak.index < actions.size()) result.action = actions[peak.index];
  return result;
}

std::vector<std::pair<std::string, Bytes>> contents_of(const Program& program,
                                                       const Setting& setting, int rank,
                                                       const LanesPeak& peak) {
  const std::vector<Action>& actions = program.ranks[static_cast<std::size_t>(rank)];
  Ledger ledger(*setting.chain, scope_of(setting, program, rank, trains(program)));
  RankWeights weights(setting, program, rank);
  for (std::size_t i = 0; i < peak.applied; ++i) {
    ledger.apply(actions[i]);
    weights.apply(actions[i]);
  }
  Inventory held;
  held.add_all_but(ledger.values(), peak.coming);
  std::vector<std::pair<std::string, Bytes>> contents = held.lines();
  for (const Copy& copy : peak.leaving) {
    const Value::Kind kind = copy.key.tape ? Value::Kind::kTape : Value::Kind::kOutput;
    const Value value{kind, copy.key.layer, copy.key.micro_batch, copy.size};
    contents.emplace_back(to_text(value) + ", being offloaded", copy.size);
  }
  const Bytes fixed = setting.static_bytes.empty()
                          ? Bytes(0)
                          : setting.static_bytes[static_cast<std::size_t>(rank)];
  contents.emplace_back("static", fixed - weights.unused());
  contents.emplace_back("channel", channel_bytes(setting, program, rank));
  Bytes rest = peak.size;
  for (const auto& [what, size] : contents) rest -= size;
  if (peak.index < actions.size())
    contents.emplace_back(concat("while ", to_text(actions[peak.index]), " runs"), rest);
  std::erase_if(contents, [](const auto& line) { return line.second == Bytes(0); });
  std::stable_sort(contents.begin(), contents.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return contents;
}

std::vector<Event> copy_events(int rank, Lane lane, const std::vector<Copy>& copies) {
  std::vector<Event> events;
  for (const Copy& copy : copies) {
    const bool out = lane == Lane::kOut || lane == Lane::kWeightsOut;
    const Op op = out ? (copy.key.tape ? Op::kOffloadTape : Op::kOffload)
                      : (copy.key.tape ? Op::kPrefetchTape : Op::kPrefetch);
    events.push_back(
        {rank, lane, {op, copy.key.layer, copy.key.micro_batch}, copy.begin, copy.end});
  }
  return events;
}

}  // namespace
}  // namespace trireme::simulate
