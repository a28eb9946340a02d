// SPDX-License-Identifier: Apache-2.0
#include "step/recorder.h"

#include "trireme/core/error.h"
#include "trireme/program/needs.h"

#include <algorithm>

namespace trireme::runtime {
namespace {

constexpr const char* kWhat = "recorded step";

using simulate::Event;
using simulate::Lane;
using simulate::MemoryPoint;
using simulate::RankResult;

RankResult result_of(const std::vector<Event>& events, std::vector<MemoryPoint> curve,
                     const Recording::Totals& totals);

}  // namespace

void Recorder::begin(device::Marks& marks) {
  marks_ = &marks;
  begin_ = marks.set();
  named_out_.clear();
  named_in_.clear();
  named_weights_.clear();
  named_weights_out_.clear();
  run_.events.clear();
  times_.clear();
  run_.curve.clear();
  points_.clear();
  memory_.take_interval_peak();
  run_.curve.push_back({Seconds(0), memory_.live()});
  points_.push_back(begin_);
}

void Recorder::ran(const program::Action& action, device::Marks::Mark from, bool again) {
  const device::Marks::Mark now = marks_->set();
  point(from, memory_.take_interval_peak());
  point(now, memory_.live());
  name_copy(action);
  const bool computes = program::is_forward(action.op) || program::adds_gradients(action.op) ||
                        action.op == program::Op::kUpdate || action.op == program::Op::kStep;
  const bool waits = program::is_receive(action.op) || program::is_send(action.op);
  if (!computes && !waits) return;
  run_.events.push_back(
      {.rank = rank_,
       .lane = computes ? Lane::kCompute : Lane::kLink,
       .action = action,
       .begin = {},
       .end = {},
       .peer = -1,
       .again = again && (program::is_forward(action.op) || action.op == program::Op::kGradient)});
  times_.push_back({from, now});
}

void Recorder::name_copy(const program::Action& action) {
  using program::Op;
  if (program::is_copy_out(action.op)) named_out_.push_back(action);
  if (program::is_copy_in(action.op)) named_in_.push_back(action);
  if (action.op == Op::kWeightsIn || action.op == Op::kGradientsIn)
    named_weights_.push_back({Op::kPrefetch, action.layer});
  if (action.op == Op::kWeightsOut || action.op == Op::kGradientsOut)
    named_weights_out_.push_back({Op::kOffload, action.layer});
}

void Recorder::settle() {
  for (std::size_t i = 0; i < times_.size(); ++i) {
    run_.events[i].begin = since_begin(marks_->time(times_[i].from));
    run_.events[i].end = since_begin(marks_->time(times_[i].to));
  }
  for (std::size_t i = 0; i < points_.size(); ++i)
    run_.curve[i].time = since_begin(marks_->time(points_[i]));
}

void Recorder::copies(Lane lane, const std::deque<tier::CopyLane::Span>& spans) {
  const auto& named = lane == Lane::kOut       ? named_out_
                      : lane == Lane::kIn      ? named_in_
                      : lane == Lane::kWeights ? named_weights_
                                               : named_weights_out_;
  ensure(named.size() == spans.size(), "every copy that was named has run");
  for (std::size_t i = 0; i < spans.size(); ++i) {
    run_.events.push_back({.rank = rank_,
                           .lane = lane,
                           .action = named[i],
                           .begin = since_begin(spans[i].begin),
                           .end = since_begin(spans[i].end)});
  }
}

void Recorder::ended(const Recording::Totals& totals) {
  run_.totals = totals;
  run_.totals.end = since_begin(Clock::now());
}

Seconds Recorder::since_begin(Clock::time_point time) const {
  return to_seconds(time - marks_->time(begin_));
}

void Recorder::point(device::Marks::Mark time, Bytes held) {
  if (run_.curve.back().held == held) return;
  run_.curve.push_back({Seconds(0), held});
  points_.push_back(time);
}

simulate::Simulation gather_step(comm::Channel& channel, std::span<const int> group,
                                 const Recording& mine) {
  simulate::Simulation step;
  std::vector<std::vector<MemoryPoint>> curves = all_gather(channel, group, mine.curve, kWhat);
  const std::vector<std::vector<Event>> events = all_gather(channel, group, mine.events, kWhat);
  const auto totals = all_gather(channel, group, std::vector{mine.totals}, kWhat);
  Seconds busy;
  for (std::size_t rank = 0; rank < events.size(); ++rank) {
    RankResult result = result_of(events[rank], std::move(curves[rank]), totals[rank].at(0));
    busy += result.busy;
    step.recompute += result.recompute;
    step.step = std::max(step.step, result.end);
    step.ranks.push_back(std::move(result));
    step.events.insert(step.events.end(), events[rank].begin(), events[rank].end());
  }
  if (step.step > Seconds(0))
    step.bubble = 1 - busy / (step.step * static_cast<double>(events.size()));
  return step;
}

namespace {

RankResult result_of(const std::vector<Event>& events, std::vector<MemoryPoint> curve,
                     const Recording::Totals& totals) {
  RankResult result;
  result.busy = totals.busy;
  result.recompute = totals.recompute;
  result.wait_for_ranks = totals.wait_for_ranks;
  result.wait_for_copies = totals.wait_for_copies;
  result.copies_out = totals.state_out;
  result.copies_in = totals.state_in;
  result.end = totals.end;
  result.moved = totals.moved;
  result.state_moved = totals.state_moved;
  result.weights_moved = totals.weights_moved;
  result.offloaded = totals.offloaded;
  for (const Event& event : events) {
    if (event.lane == Lane::kOut || event.lane == Lane::kWeightsOut)
      result.copies_out += event.end - event.begin;
    if (event.lane == Lane::kIn || event.lane == Lane::kWeights)
      result.copies_in += event.end - event.begin;
  }
  for (const MemoryPoint& point : curve) {
    if (point.held <= result.peak.size) continue;
    result.peak.size = point.held;
    result.peak.time = point.time;
  }
  result.curve = std::move(curve);
  return result;
}

}  // namespace
}  // namespace trireme::runtime
