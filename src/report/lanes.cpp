// Rows of blocks: the lanes of a rank, and the passes of a pipeline.
// SPDX-License-Identifier: Apache-2.0
#include "markup.h"
#include "rows.h"
#include "timeline.h"

#include "trireme/core/text.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

namespace trireme::report {
namespace {

using simulate::Event;

constexpr double kRow = 24, kGap = 5;
/// Rows shrink where all ranks would exceed this height.
constexpr double kRoom = 640, kLeastRow = 9;
/// Rows with more blocks than this merge neighbours of the same kind.
constexpr std::size_t kCrowded = 120;
/// Invisible gap between blocks in pixels, also the least block of a crowded row.
constexpr double kTouching = 0.5;
/// Least width in pixels of blocks with an outline, which would cover narrower ones.
constexpr double kOutlined = 3;
/// Width of a letter inside a block in pixels.
constexpr double kLetter = 6.6;

/// Consecutive events of a kind, drawn as one block.
struct Block {
  Event first;
  Kind kind{};
  Seconds end;
  int least = 0, most = 0;  ///< layers
  int chunk = 0;            ///< its number
  std::size_t events = 1;
  bool mixed = false;  ///< several kinds or micro-batches, too short to tell apart
};

enum class Numbers { kLayers, kMicroBatches };

/// Geometry of a row.
struct Drawn {
  Scale time;
  double y = 0, height = kRow;
  Numbers numbers{};
  const std::vector<int>* chunks = nullptr;  ///< by layer; nullptr, empty: one on each rank
  std::set<int> own = {};                    ///< the rank's chunks

  bool has_chunks() const { return own.size() > 1; }
  int chunk_of(int layer) const {
    const auto place = static_cast<std::size_t>(layer);
    return chunks == nullptr || layer < 1 || place >= chunks->size() ? 0 : (*chunks)[place];
  }
  /// Which of the rank's chunks it is, from 0.
  int shade_of(int chunk) const {
    return static_cast<int>(std::distance(own.begin(), own.lower_bound(chunk)));
  }
};

std::string row(const std::vector<Event>& events, const chain::Chain& chain, const Drawn& how,
                const std::string& caption);
std::vector<Block> blocks_of(std::vector<Event> events, const Drawn& how);
/// Merges the event into the block if it follows directly, to pixel accuracy.
bool absorbs(Block& block, const Event& event, bool crowded, const Drawn& how);
std::string drawn(const Block& block, const chain::Chain& chain, const Drawn& how);
/// Text inside a block; "" for none.
std::string inscription(const Block& block, Numbers numbers);
std::string tip(const Block& block, const chain::Chain& chain, const Drawn& how);

}  // namespace

Lanes lane_rows(const simulate::Simulation& simulation, const chain::Chain& chain, int rank,
                const Area& area) {
  std::map<Row, std::vector<Event>> rows;
  for (const Event& event : simulation.events) {
    if (event.rank == rank) rows[row_of(event)].push_back(event);
  }
  Lanes lanes{"", area.top};
  for (const auto& [key, events] : rows) {
    lanes.drawing +=
        row(events, chain, {area.time, lanes.bottom, kRow, Numbers::kLayers}, name(key));
    lanes.bottom += kRow + kGap;
  }
  return lanes;
}

Lanes pass_rows(const simulate::Simulation& simulation, const chain::Chain& chain,
                const std::vector<int>& ranks, const std::vector<int>& chunks, const Area& area) {
  std::map<int, std::vector<Event>> rows;
  for (const int rank : ranks) rows[rank];
  for (const Event& event : simulation.events) {
    const auto found = rows.find(event.rank);
    if (found != rows.end() && event.lane == simulate::Lane::kCompute)
      found->second.push_back(event);
  }
  const double height = std::clamp(
      kRoom / static_cast<double>(std::max<std::size_t>(rows.size(), 1)) - 2, kLeastRow, kRow);
  Lanes lanes{"", area.top};
  for (const auto& [rank, events] : rows) {
    Drawn how{area.time, lanes.bottom, height, Numbers::kMicroBatches, &chunks};
    for (const Event& event : events)
      if (!chunks.empty() && event.action.layer >= 1)
        how.own.insert(how.chunk_of(event.action.layer));
    lanes.drawing += row(events, chain, how, concat("rank ", rank));
    lanes.bottom += height + std::min(kGap, height / 5);
  }
  return lanes;
}

std::string time_axis(const Scale& time, double top, double bottom) {
  const Ticks ticks = time_ticks(time, 10);
  std::string out;
  for (const Tick& tick : ticks.ticks) {
    const double x = time.at(tick.value);
    const bool last = &tick == &ticks.ticks.back();
    out += line(x, top, x, bottom, "grid") +
           label(x, bottom + 17, "middle", last ? concat(tick.text, " ", ticks.unit) : tick.text);
  }
  return out + line(time.begin, bottom, time.end, bottom, "axis") + "\n";
}

namespace {

std::string row(const std::vector<Event>& events, const chain::Chain& chain, const Drawn& how,
                const std::string& caption) {
  const double left = how.time.begin, small = std::min(11.0, how.height);
  std::string out = element("rect", {{"x", pixels(left)},
                                     {"y", pixels(how.y)},
                                     {"width", pixels(how.time.end - left)},
                                     {"height", pixels(how.height)},
                                     {"class", "row"}});
  out += label(left - 8, how.y + how.height / 2 + small / 3,
               how.height < kRow ? "end small" : "end", caption);
  for (const Block& block : blocks_of(events, how)) out += drawn(block, chain, how);
  return out + "\n";
}

std::vector<Block> blocks_of(std::vector<Event> events, const Drawn& how) {
  std::stable_sort(events.begin(), events.end(),
                   [](const Event& a, const Event& b) { return a.begin < b.begin; });
  const bool crowded = events.size() > kCrowded;
  const bool joins = crowded || how.numbers == Numbers::kMicroBatches;
  std::vector<Block> blocks;
  for (const Event& event : events) {
    if (joins && !blocks.empty() && absorbs(blocks.back(), event, crowded, how)) continue;
    blocks.push_back({.first = event,
                      .kind = kind_of(event),
                      .end = event.end,
                      .least = event.action.layer,
                      .most = event.action.layer,
                      .chunk = how.chunk_of(event.action.layer)});
  }
  return blocks;
}

bool absorbs(Block& block, const Event& event, bool crowded, const Drawn& how) {
  const Scale& time = how.time;
  const bool same = block.kind == kind_of(event) && block.kind != Kind::kOther &&
                    block.chunk == how.chunk_of(event.action.layer) &&
                    block.first.action.micro_batch == event.action.micro_batch;
  const bool touches = time.at(event.begin.count()) - time.at(block.end.count()) < kTouching;
  const bool unseen =
      crowded && time.at(event.end.count()) - time.at(block.first.begin.count()) < kTouching;
  if (!(same && touches) && !unseen) return false;
  block.end = std::max(block.end, event.end);
  block.least = std::min(block.least, event.action.layer);
  block.most = std::max(block.most, event.action.layer);
  block.mixed = block.mixed || !same;
  ++block.events;
  return true;
}

std::string drawn(const Block& block, const chain::Chain& chain, const Drawn& how) {
  const double x = how.time.at(block.first.begin.count());
  const double width = std::max(how.time.at(block.end.count()) - x, 0.4);
  const int shade = how.shade_of(block.chunk);
  std::string out = element("rect",
                            {{"x", pixels(x)},
                             {"y", pixels(how.y)},
                             {"width", pixels(width)},
                             {"height", pixels(how.height)},
                             {"class", concat(width > kOutlined ? "block " : "", name(block.kind),
                                              shade > 0 ? concat(" chunk", shade) : "")}},
                            title(tip(block, chain, how)));
  const std::string text = inscription(block, how.numbers);
  if (!text.empty() && how.height >= 12 && static_cast<double>(text.size()) * kLetter + 4 < width)
    out += label(x + width / 2, how.y + how.height / 2 + 3.5, "inside", text);
  return out;
}

std::string inscription(const Block& block, Numbers numbers) {
  if (block.mixed || block.kind == Kind::kWait || block.kind == Kind::kOther) return "";
  if (numbers == Numbers::kMicroBatches) return concat(block.first.action.micro_batch);
  return block.least == block.most ? concat(block.least) : concat(block.least, "-", block.most);
}

std::string tip(const Block& block, const chain::Chain& chain, const Drawn& how) {
  const program::Action& action = block.first.action;
  std::string what;
  if (block.mixed) {
    what = concat(block.events, " short runs");
  } else if (block.events > 1) {
    what = concat(name(block.kind), " of layers ", block.least, " to ", block.most,
                  ", micro-batch ", action.micro_batch);
  } else {
    what = concat(block.kind == Kind::kWait ? "waiting: " : "", program::to_text(action),
                  block.first.again ? ", again" : "");
    if (action.layer >= 1 && action.layer <= chain.length())
      what += concat(" (", chain.layer(action.layer).name, ")");
  }
  if (how.has_chunks() && block.kind != Kind::kWait && !block.mixed)
    what += concat(", chunk ", block.chunk);
  return concat(what, "\n", to_text(block.end - block.first.begin), ", from ",
                to_text(block.first.begin), " on");
}

}  // namespace
}  // namespace trireme::report
