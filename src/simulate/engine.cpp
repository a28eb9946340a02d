// Ranks that run together over bounded message streams.
// SPDX-License-Identifier: Apache-2.0
#include "engine.h"

#include "shape.h"

#include "trireme/core/text.h"
#include "trireme/program/updates.h"

#include <algorithm>

namespace trireme::simulate {

using program::Action;
using program::Op;
using program::Program;

namespace {

/// An action that stands for the stream with the outputs of a layer.
Action outputs_of(int layer);
/// "output x[3] of micro-batch 1" as the message of a send or receive.
std::string message_name(const Action& action);

}  // namespace

Engine::Engine(const Program& program, const Setting& setting, Detail detail)
    : program_(program), setting_(setting), detail_(detail), streams_(program, setting) {
  const bool training = trains(program);
  std::vector<Seconds> update(program.ranks.size());
  std::vector<Bytes> optimizer(program.ranks.size());
  std::vector<Bytes> gradients(program.ranks.size()), weights(program.ranks.size());
  for (int i = 1; i <= program.layers; ++i) {
    const auto rank = static_cast<std::size_t>(program.rank_of_layer[static_cast<std::size_t>(i)]);
    update[rank] += setting.chain->layer(i).update;
    const chain::LayerCost& layer = setting.chain->layer(i);
    optimizer[rank] += layer.optimizer;
    gradients[rank] += layer.gradients;
    weights[rank] += chain::trained_weights(layer);
  }
  for (int rank = 0; rank < static_cast<int>(program.ranks.size()); ++rank) {
    const chain::RankSpec& spec = setting.platform->ranks[static_cast<std::size_t>(rank)];
    Execution::Setup setup;
    setup.scope = scope_of(setting, program, rank, training);
    setup.lanes = {spec.out, spec.in, {}};
    if (spec.memory > Bytes(0)) setup.lanes.budget = spec.memory;
    setup.base = base_bytes(setting, program, rank);
    setup.update = update[static_cast<std::size_t>(rank)];
    setup.optimizer = optimizer[static_cast<std::size_t>(rank)];
    const auto half = [&](const std::vector<Bytes>& sizes) {
      return chain::half_of_a_sum(setting.platform->replica_link, setting.replicas,
                                  sizes[static_cast<std::size_t>(rank)]);
    };
    setup.reduce = half(gradients);
    if (setting.optimizer_shards > 1)
      setup.share = half(weights);
    else
      setup.reduce += half(gradients);
    setup.offloaded_optimizer = offloaded_optimizer(setting, rank);
    setup.outside = always_outside(setting, program, rank);
    setup.speed = spec.speed;
    setup.power = spec.power;
    if (!setting.clocks.empty()) setup.clocks = &setting.clocks;
    setup.weights = RankWeights(setting, program, rank);
    setup.updates = program::layer_updates(program.ranks[static_cast<std::size_t>(rank)]);
    setup.update_window = update_window(setting, setup.updates, rank);
    records_.push_back(std::make_unique<Record>());
    if (detail == Detail::kTimeline)
      setup.record = {.out = &records_.back()->out,
                      .in = &records_.back()->in,
                      .weights = &records_.back()->weights,
                      .weights_out = &records_.back()->weights_out,
                      .curve = &records_.back()->curve};
    ranks_.push_back(std::make_unique<RankState>(*setting.chain, setup));
  }
}

const std::vector<Copy>& Engine::copies(int rank, Lane lane) const {
  const Record& record = *records_[static_cast<std::size_t>(rank)];
  if (lane == Lane::kWeights) return record.weights;
  if (lane == Lane::kWeightsOut) return record.weights_out;
  return lane == Lane::kOut ? record.out : record.in;
}

std::optional<ProgramFault> Engine::run(Watch* watch) {
  for (int rank = static_cast<int>(ranks_.size()) - 1; rank >= 0; --rank) ready_.push_back(rank);
  while (!ready_.empty()) {
    const int rank = ready_.back();
    ready_.pop_back();
    if (auto fault = run_rank(rank, watch)) return fault;
  }
  if (auto fault = stuck()) return fault;
  return unreceived();
}

std::optional<ProgramFault> Engine::run_rank(int rank, Watch* watch) {
  RankState& state = *ranks_[static_cast<std::size_t>(rank)];
  const std::vector<Action>& actions = program_.ranks[static_cast<std::size_t>(rank)];
  for (; state.next < actions.size(); ++state.next) {
    Turn turn = Turn::kRan;
    std::optional<std::string> reason = take_turn(rank, turn);
    if (!reason && turn == Turn::kWaits) return std::nullopt;
    if (!reason && watch != nullptr) reason = watch->ran(rank, state);
    if (reason) return ProgramFault{rank, state.next, actions[state.next], std::move(*reason)};
  }
  state.execution.end();
  return std::nullopt;
}

std::optional<std::string> Engine::take_turn(int rank, Turn& turn) {
  RankState& state = *ranks_[static_cast<std::size_t>(rank)];
  const Action& action = program_.ranks[static_cast<std::size_t>(rank)][state.next];
  if (is_send(action.op)) return send(rank, action, turn);
  if (is_receive(action.op)) return receive(rank, action, turn);
  if (takes_from_messages(rank, action)) {
    Stream& stream = streams_.of(outputs_of(action.layer));
    if (!goes_on(state, stream, streams_.all_asked_for(stream), turn)) return std::nullopt;
  }
  auto reason = state.execution.run(action, state.next);
  if (!reason && detail_ == Detail::kTimeline) record(rank, action);
  return reason;
}

std::optional<std::string> Engine::send(int rank, const Action& action, Turn& turn) {
  RankState& state = *ranks_[static_cast<std::size_t>(rank)];
  Stream& stream = streams_.of(action);
  if (!goes_on(state, stream, !streams_.full(stream), turn)) return std::nullopt;
  if (auto reason = state.execution.run(action, state.next)) return reason;
  const Seconds begin = std::max(state.execution.now(), stream.lane_free);
  const Seconds arrival = begin + stream.link.time(setting_.chain->output(action.layer));
  stream.lane_free = arrival - stream.link.latency;
  streams_.push(stream, {action, state.next, arrival});
  if (detail_ == Detail::kTimeline && arrival > begin)
    state.events.push_back({rank, Lane::kLink, action, begin, arrival, stream.to});
  if (stream.receiver_waits) ready_.push_back(stream.to);
  stream.receiver_waits = false;
  return std::nullopt;
}

std::optional<std::string> Engine::receive(int rank, const Action& action, Turn& turn) {
  RankState& state = *ranks_[static_cast<std::size_t>(rank)];
  Stream& stream = streams_.of(action);
  if (stream.messages.empty()) {
    stream.receiver_waits = true;
    turn = Turn::kWaits;
    return std::nullopt;
  }
  const Message message = stream.messages.front();
  if (message.sent.layer != action.layer || message.sent.micro_batch != action.micro_batch)
    return concat("the next message from rank ", stream.from, " is the ",
                  message_name(message.sent), " (its action ", message.index, ")");
  // The bytes are taken when the receive is posted, not when the message has arrived.
  if (auto reason = state.execution.run(action, state.next)) return reason;
  wait(state, message.arrival);
  streams_.pop(stream, state.execution.now());
  if (stream.sender_waits) ready_.push_back(stream.from);
  stream.sender_waits = false;
  return std::nullopt;
}

bool Engine::goes_on(RankState& state, Stream& stream, bool may, Turn& turn) {
  if (!may) {
    stream.sender_waits = true;
    turn = Turn::kWaits;
    return false;
  }
  wait(state, streams_.room(stream));
  return true;
}

// A stage's output is sent straight from its tape. A message in transit no longer reads it once the
// receiver has posted its receive. The ledger refuses values of other ranks.
bool Engine::takes_from_messages(int rank, const Action& action) const {
  if (action.op != Op::kOffload && action.op != Op::kOffloadTape) return false;
  const auto layer = static_cast<std::size_t>(action.layer);
  return layer >= 1 && layer + 1 < program_.rank_of_layer.size() &&
         program_.rank_of_layer[layer] == rank && program_.rank_of_layer[layer + 1] != rank;
}

const Stream& Engine::stream_of(int rank, const Action& action) const {
  return streams_.of(takes_from_messages(rank, action) ? outputs_of(action.layer) : action);
}

void Engine::wait(RankState& state, Seconds until) {
  const Seconds now = state.execution.now();
  if (until <= now) return;
  state.waited += until - now;
  state.execution.wait_until(until);
}

void Engine::record(int rank, const Action& action) {
  RankState& state = *ranks_[static_cast<std::size_t>(rank)];
  const Execution& execution = state.execution;
  if (execution.last_duration() <= Seconds(0)) return;
  const Seconds end = execution.last_end();
  state.events.push_back({rank, Lane::kCompute, action, end - execution.last_duration(), end, -1,
                          execution.last_again()});
}

std::optional<ProgramFault> Engine::stuck() const {
  const auto ended = [&](int rank) {
    return ranks_[static_cast<std::size_t>(rank)]->next ==
           program_.ranks[static_cast<std::size_t>(rank)].size();
  };
  int rank = 0;
  while (rank < static_cast<int>(ranks_.size()) && ended(rank)) ++rank;
  if (rank == static_cast<int>(ranks_.size())) return std::nullopt;
  // Every waiting rank waits for one other rank: following them leads to a rank that has ended or
  // in a circle.
  std::vector<int> path;
  while (!ended(rank) && std::find(path.begin(), path.end(), rank) == path.end()) {
    path.push_back(rank);
    rank = waits_for(rank);
  }
  const int first = ended(rank) ? path.back() : rank;
  const RankState& state = *ranks_[static_cast<std::size_t>(first)];
  const Action& action = program_.ranks[static_cast<std::size_t>(first)][state.next];
  ProgramFault fault{first, state.next, action, {}};
  if (ended(rank)) {
    fault.reason =
        concat("waits for rank ", rank, ", which has ended and never ",
               is_receive(action.op) ? "sends" : "receives", " the ", message_name(action));
    return fault;
  }
  std::vector<std::string> circle;
  for (auto at = std::find(path.begin(), path.end(), rank); at != path.end(); ++at)
    circle.push_back(concat(place(*at), " for rank ", waits_for(*at)));
  fault.reason = "ranks wait for one another in a circle: " + join(circle, ", ");
  return fault;
}

std::optional<ProgramFault> Engine::unreceived() const {
  for (const Stream& stream : streams_) {
    if (stream.messages.empty()) continue;
    const Message& message = stream.messages.front();
    return ProgramFault{
        stream.from, message.index, message.sent,
        concat("rank ", stream.to, " never receives the ", message_name(message.sent))};
  }
  return std::nullopt;
}

int Engine::waits_for(int rank) const {
  const RankState& state = *ranks_[static_cast<std::size_t>(rank)];
  const Action& action = program_.ranks[static_cast<std::size_t>(rank)][state.next];
  const Stream& stream = stream_of(rank, action);
  return is_receive(action.op) ? stream.from : stream.to;
}

std::string Engine::place(int rank) const {
  const std::size_t next = ranks_[static_cast<std::size_t>(rank)]->next;
  return concat("rank ", rank, " at action ", next, " (",
                to_text(program_.ranks[static_cast<std::size_t>(rank)][next]), ")");
}

namespace {

Action outputs_of(int layer) {
  return {Op::kSendOutput, layer, 0};
}

std::string message_name(const Action& action) {
  const bool gradient = action.op == Op::kSendGradient || action.op == Op::kReceiveGradient;
  return concat(!gradient ? "output" : "gradient of", " x[", action.layer, "] of micro-batch ",
                action.micro_batch);
}

}  // namespace
}  // namespace trireme::simulate
