// SPDX-License-Identifier: Apache-2.0
#include "trireme/report/chrome_trace.h"

#include "trireme/core/text.h"

#include <nlohmann/json.hpp>

#include <map>
#include <utility>

namespace trireme::report {
namespace {

using Json = nlohmann::ordered_json;
using program::Op;
using simulate::Lane;

/// Thread numbers within a rank's process: lanes of its own, then two streams to every peer.
int thread_of(const simulate::Event& event);
std::string thread_name(const simulate::Event& event);
std::string_view category(const simulate::Event& event);
Json name_event(std::string_view kind, int rank, int thread, std::string name);
Json block(const simulate::Event& event, const chain::Chain& chain);
double microseconds(Seconds time) {
  return time.count() * 1e6;
}

}  // namespace

std::string chrome_trace(const simulate::Simulation& simulation, const chain::Chain& chain) {
  Json events = Json::array();
  std::map<std::pair<int, int>, std::string> threads;
  for (const simulate::Event& event : simulation.events)
    threads.try_emplace({event.rank, thread_of(event)}, thread_name(event));
  for (int rank = 0; rank < static_cast<int>(simulation.ranks.size()); ++rank)
    events.push_back(name_event("process_name", rank, 0, concat("rank ", rank)));
  for (const auto& [place, name] : threads)
    events.push_back(name_event("thread_name", place.first, place.second, name));
  for (const simulate::Event& event : simulation.events) events.push_back(block(event, chain));
  for (std::size_t rank = 0; rank < simulation.ranks.size(); ++rank) {
    for (const simulate::MemoryPoint& point : simulation.ranks[rank].curve) {
      events.push_back({{"ph", "C"},
                        {"name", "device bytes"},
                        {"pid", rank},
                        {"ts", microseconds(point.time)},
                        {"args", {{"held", point.held.count()}}}});
    }
  }
  return Json{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}}.dump() + "\n";
}

namespace {

int thread_of(const simulate::Event& event) {
  switch (event.lane) {
    case Lane::kCompute:
      return 1;
    case Lane::kOut:
      return 2;
    case Lane::kIn:
      return 3;
    case Lane::kLink:
      return 10 + 2 * event.peer + (event.action.op == Op::kSendGradient ? 1 : 0);
  }
  return 0;
}

std::string thread_name(const simulate::Event& event) {
  switch (event.lane) {
    case Lane::kCompute:
      return "compute";
    case Lane::kOut:
      return "copies out";
    case Lane::kIn:
      return "copies in";
    case Lane::kLink:
      return concat(event.action.op == Op::kSendGradient ? "gradients" : "outputs", " to rank ",
                    event.peer);
  }
  return "";
}

std::string_view category(const simulate::Event& event) {
  if (event.lane == Lane::kLink) return "transfer";
  if (event.lane != Lane::kCompute) return "copy";
  if (event.action.op == Op::kBackward) return "backward";
  return event.again ? "recompute" : "forward";
}

Json name_event(std::string_view kind, int rank, int thread, std::string name) {
  return {{"ph", "M"},
          {"name", kind},
          {"pid", rank},
          {"tid", thread},
          {"args", {{"name", std::move(name)}}}};
}

Json block(const simulate::Event& event, const chain::Chain& chain) {
  const int i = event.action.layer;
  Json args{{"micro_batch", event.action.micro_batch}, {"layer", i}};
  if (i >= 1 && i <= chain.length()) args["name"] = chain.layer(i).name;
  return {{"ph", "X"},
          {"name", program::to_text(event.action)},
          {"cat", category(event)},
          {"pid", event.rank},
          {"tid", thread_of(event)},
          {"ts", microseconds(event.begin)},
          {"dur", microseconds(event.end - event.begin)},
          {"args", std::move(args)}};
}

}  // namespace
}  // namespace trireme::report
