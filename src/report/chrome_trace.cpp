// SPDX-License-Identifier: Apache-2.0
#include "trireme/report/chrome_trace.h"

#include "rows.h"

#include "trireme/core/text.h"
#include "trireme/io/json.h"

#include <map>
#include <string_view>
#include <utility>

namespace trireme::report {
namespace {

using io::Json;

/// The processes of one step: rank r is number first + r.
struct Group {
  const std::vector<int>& chunks;  ///< by layer from 1
  int first = 0;
  std::string prefix;  ///< prefix of their names
  /// Number of groups, interleaved rank by rank, and the index of this one; one alone needs no
  /// order.
  int groups = 1, place = 0;
};

void append(Json& events, const simulate::Simulation& simulation, const chain::Chain& chain,
            const Group& group);
std::string document(Json events);
/// Thread numbers within a rank's process: lanes of its own, then four streams per peer.
int thread_of(const Row& row);
Json meta(std::string_view kind, int process, int thread, Json arguments);
Json block(const simulate::Event& event, const chain::Chain& chain, const Group& group);
double microseconds(Seconds time) {
  return time.count() * 1e6;
}

}  // namespace

std::string chrome_trace(const simulate::Simulation& simulation, const chain::Chain& chain,
                         const std::vector<int>& chunks) {
  Json events = Json::array();
  append(events, simulation, chain, {.chunks = chunks});
  return document(std::move(events));
}

std::string chrome_trace(const simulate::Simulation& predicted,
                         const simulate::Simulation& measured, const chain::Chain& chain,
                         const std::vector<int>& chunks) {
  Json events = Json::array();
  const int ranks = static_cast<int>(measured.ranks.size());
  append(events, measured, chain, {.chunks = chunks, .groups = 2, .place = 1});
  append(events, predicted, chain,
         {.chunks = chunks, .first = ranks, .prefix = "predicted ", .groups = 2});
  return document(std::move(events));
}

namespace {

void append(Json& events, const simulate::Simulation& simulation, const chain::Chain& chain,
            const Group& group) {
  for (int rank = 0; rank < static_cast<int>(simulation.ranks.size()); ++rank) {
    const int process = group.first + rank;
    events.push_back(
        meta("process_name", process, 0, {{"name", concat(group.prefix, "rank ", rank)}}));
    if (group.groups == 1) continue;
    events.push_back(meta("process_sort_index", process, 0,
                          {{"sort_index", rank * group.groups + group.place}}));
  }
  std::map<std::pair<int, int>, std::string> threads;
  for (const simulate::Event& event : simulation.events) {
    const Row row = row_of(event);
    threads.try_emplace({group.first + event.rank, thread_of(row)}, name(row));
  }
  for (const auto& [place, name] : threads)
    events.push_back(meta("thread_name", place.first, place.second, {{"name", name}}));
  for (const simulate::Event& event : simulation.events)
    events.push_back(block(event, chain, group));
  for (std::size_t rank = 0; rank < simulation.ranks.size(); ++rank) {
    for (const simulate::MemoryPoint& point : simulation.ranks[rank].curve) {
      events.push_back({{"ph", "C"},
                        {"name", "device bytes"},
                        {"pid", group.first + static_cast<int>(rank)},
                        {"ts", microseconds(point.time)},
                        {"args", {{"held", point.held.count()}}}});
    }
  }
}

std::string document(Json events) {
  return io::one_line({{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}}) + "\n";
}

int thread_of(const Row& row) {
  switch (row.lane) {
    case simulate::Lane::kCompute:
      return 1;
    case simulate::Lane::kOut:
      return 2;
    case simulate::Lane::kIn:
      return 3;
    case simulate::Lane::kWeights:
      return 4;
    case simulate::Lane::kWeightsOut:
      return 5;
    case simulate::Lane::kLink:
      return 10 + 4 * row.peer + (row.gradients ? 1 : 0) + (row.arriving ? 2 : 0);
  }
  return 0;
}

Json meta(std::string_view kind, int process, int thread, Json arguments) {
  return {{"ph", "M"},
          {"name", kind},
          {"pid", process},
          {"tid", thread},
          {"args", std::move(arguments)}};
}

Json block(const simulate::Event& event, const chain::Chain& chain, const Group& group) {
  const int i = event.action.layer;
  Json args{{"micro_batch", event.action.micro_batch}, {"layer", i}};
  if (i >= 1 && i <= chain.length()) args["name"] = chain.layer(i).name;
  if (i >= 1 && std::cmp_less(i, group.chunks.size()))
    args["chunk"] = group.chunks[static_cast<std::size_t>(i)];
  return {{"ph", "X"},
          {"name", program::to_text(event.action)},
          {"cat", name(kind_of(event))},
          {"pid", group.first + event.rank},
          {"tid", thread_of(row_of(event))},
          {"ts", microseconds(event.begin)},
          {"dur", microseconds(event.end - event.begin)},
          {"args", std::move(args)}};
}

}  // namespace
}  // namespace trireme::report
