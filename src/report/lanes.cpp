// SPDX-License-Identifier: Apache-2.0
#include "markup.h"
#include "timeline.h"

#include "trireme/core/text.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace trireme::report {
namespace {

using program::Op;
using simulate::Event;
using simulate::Lane;

constexpr double kRow = 24, kGap = 5;
/// A row with more blocks than this shows neighbours of a kind as one.
constexpr std::size_t kCrowded = 120;
/// Pixels from which on a block has an outline: it would cover a narrower one.
constexpr double kOutlined = 3;
/// Pixels that a letter takes inside a block.
constexpr double kLetter = 6.6;

/// Which row an event belongs to: the lane, and of links the peer and the kind of message.
using RowKey = std::pair<int, int>;
RowKey row_of(const Event& event);
std::string row_name(const Event& event);

/// Events of a kind, one after the other, as one.
struct Block {
  Event first;
  Seconds end;
  int least = 0, most = 0;  ///< layers
  std::size_t events = 1;
};
std::vector<Block> blocks_of(const std::vector<Event>& events, const Scale& time);
/// Whether the event comes right after the block, as far as pixels tell.
bool goes_on(const Block& block, const Event& event, const Scale& time);

std::string drawn(const Block& block, const chain::Chain& chain, const Scale& time, double y);
std::string_view kind(const Event& event);
std::string tip(const Block& block, const chain::Chain& chain);

}  // namespace

Lanes lane_rows(const simulate::Simulation& simulation, const chain::Chain& chain, int rank,
                const Area& area) {
  std::map<RowKey, std::vector<Event>> rows;
  for (const Event& event : simulation.events) {
    if (event.rank == rank) rows[row_of(event)].push_back(event);
  }
  Lanes lanes{"", area.top};
  for (const auto& [key, events] : rows) {
    const double y = lanes.bottom;
    lanes.drawing += element("rect", {{"x", pixels(area.time.begin)},
                                      {"y", pixels(y)},
                                      {"width", pixels(area.time.end - area.time.begin)},
                                      {"height", pixels(kRow)},
                                      {"class", "row"}});
    lanes.drawing += label(area.time.begin - 8, y + kRow / 2 + 4, "end", row_name(events.front()));
    for (const Block& block : blocks_of(events, area.time))
      lanes.drawing += drawn(block, chain, area.time, y);
    lanes.drawing += "\n";
    lanes.bottom += kRow + kGap;
  }
  return lanes;
}

std::string time_axis(const Scale& time, double top, double bottom) {
  const Ticks ticks = time_ticks(time, 10);
  std::string out;
  for (const Tick& tick : ticks.ticks) {
    const double x = time.at(tick.value);
    out += line(x, top, x, bottom, "grid") + label(x, bottom + 17, "middle", tick.text);
  }
  out += line(time.begin, bottom, time.end, bottom, "axis");
  return out + label(time.end + 6, bottom + 17, "", ticks.unit) + "\n";
}

namespace {

RowKey row_of(const Event& event) {
  const bool gradient = event.action.op == Op::kSendGradient;
  return {static_cast<int>(event.lane), event.lane == Lane::kLink ? 2 * event.peer + gradient : 0};
}

std::string row_name(const Event& event) {
  switch (event.lane) {
    case Lane::kCompute:
      return "compute";
    case Lane::kOut:
      return "copies out";
    case Lane::kIn:
      return "copies in";
    case Lane::kLink:
      return concat("to rank ", event.peer);
  }
  return "";
}

std::vector<Block> blocks_of(const std::vector<Event>& events, const Scale& time) {
  std::vector<Block> blocks;
  for (const Event& event : events) {
    if (events.size() > kCrowded && !blocks.empty() && goes_on(blocks.back(), event, time)) {
      Block& block = blocks.back();
      block.end = event.end;
      block.least = std::min(block.least, event.action.layer);
      block.most = std::max(block.most, event.action.layer);
      ++block.events;
    } else {
      blocks.push_back({event, event.end, event.action.layer, event.action.layer, 1});
    }
  }
  return blocks;
}

bool goes_on(const Block& block, const Event& event, const Scale& time) {
  return kind(block.first) == kind(event) &&
         block.first.action.micro_batch == event.action.micro_batch &&
         time.at(event.begin.count()) - time.at(block.end.count()) < 0.05;
}

std::string drawn(const Block& block, const chain::Chain& chain, const Scale& time, double y) {
  const double x = time.at(block.first.begin.count());
  const double width = std::max(time.at(block.end.count()) - x, 0.4);
  std::string out =
      element("rect",
              {{"x", pixels(x)},
               {"y", pixels(y)},
               {"width", pixels(width)},
               {"height", pixels(kRow)},
               {"class", concat(width > kOutlined ? "block " : "", kind(block.first))}},
              title(tip(block, chain)));
  const std::string text =
      block.least == block.most ? concat(block.least) : concat(block.least, "-", block.most);
  if (static_cast<double>(text.size()) * kLetter + 4 < width)
    out += label(x + width / 2, y + kRow / 2 + 3.5, "inside", text);
  return out;
}

std::string_view kind(const Event& event) {
  if (event.lane == Lane::kLink) return "link";
  if (event.lane != Lane::kCompute) return "copy";
  if (event.action.op == Op::kBackward) return "backward";
  return event.again ? "again" : "forward";
}

std::string tip(const Block& block, const chain::Chain& chain) {
  const program::Action& action = block.first.action;
  std::string what;
  if (block.events > 1) {
    what = concat(kind(block.first) == "again" ? "recompute" : kind(block.first), " of layers ",
                  block.least, " to ", block.most, ", micro-batch ", action.micro_batch);
  } else {
    what = concat(program::to_text(action), block.first.again ? ", again" : "");
    if (action.layer >= 1 && action.layer <= chain.length())
      what += concat(" (", chain.layer(action.layer).name, ")");
  }
  return concat(what, "\n", to_text(block.end - block.first.begin), ", from ",
                to_text(block.first.begin), " on");
}

}  // namespace
}  // namespace trireme::report
