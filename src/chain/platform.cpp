// SPDX-License-Identifier: Apache-2.0
#include "trireme/chain/platform.h"

#include "trireme/chain/read_time.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/io/terminal.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <utility>

namespace trireme::chain {
namespace {

constexpr std::string_view kFormat = "trireme-platform/1";
constexpr double kMinRate = 1e-6, kMaxRate = 1e18;
constexpr double kMaxFlops = 1e21;  // a second, or a joule
constexpr Bytes kMaxOffload{std::int64_t{1} << 62};

Clock read_clock(const io::Node& node);
RankSpec read_rank(const io::Node& node);
void read_links(Platform& platform, const io::Node& node);
LinkOverride read_override(const io::Node& node, int ranks);
/// The two keys of a link, out of the map that holds them.
LinkSpec read_link(io::MapReader& map);
/// Time before a copy's bytes, which needs their rate beside it.
Seconds read_latency(const io::Node& node, BytesPerSecond rate, std::string_view rate_key);
/// 0 or at least 1.
double read_flops(const io::Node& node);
/// 12e9 (bytes per second) or "12GB/s".
BytesPerSecond read_rate(const io::Node& node);

std::string rank_line(const RankSpec& rank);
std::string link_text(const LinkSpec& link);

}  // namespace

Seconds LinkSpec::time(Bytes size) const {
  return rate == BytesPerSecond(0) ? Seconds(0) : latency + size / rate;
}

LinkSpec slower(const LinkSpec& a, const LinkSpec& b) {
  constexpr BytesPerSecond kFree(0);
  const bool first = b.rate == kFree || (a.rate != kFree && a.rate < b.rate);
  return {first ? a.rate : b.rate, std::max(a.latency, b.latency)};
}

LinkSpec Platform::link(int from, int to) const {
  if (from == to) return {};
  const auto found =
      std::find_if(overrides.begin(), overrides.end(), [&](const LinkOverride& other) {
        return (other.from == from && other.to == to) || (other.from == to && other.to == from);
      });
  return found == overrides.end() ? default_link : found->link;
}

Seconds half_of_a_sum(const LinkSpec& link, int replicas, Bytes size) {
  if (replicas == 1 || link.rate == BytesPerSecond(0)) return Seconds(0);
  return ((size / link.rate) / replicas + link.latency) * (replicas - 1);
}

Platform uniform_platform(int count, Bytes memory) {
  Platform platform;
  platform.ranks.assign(static_cast<std::size_t>(count), RankSpec{.memory = memory});
  return platform;
}

Platform first_ranks(Platform platform, int count) {
  platform.ranks.resize(static_cast<std::size_t>(count));
  std::erase_if(platform.overrides,
                [&](const LinkOverride& one) { return std::max(one.from, one.to) >= count; });
  return platform;
}

std::vector<Clock> read_clocks(const io::Node& list) {
  std::vector<Clock> clocks;
  std::set<std::string> names;
  for (const io::Node& node : list.list()) {
    clocks.push_back(read_clock(node));
    if (!names.insert(clocks.back().name).second)
      node.fail(concat("is a second clock '", clocks.back().name, "', must have another name"));
  }
  return clocks;
}

std::string to_yaml(const std::vector<Clock>& clocks) {
  std::vector<std::string> texts;
  for (const Clock& clock : clocks)
    texts.push_back(concat("{name: ", io::yaml_text(clock.name), ", time: ", to_text(clock.time),
                           ", power: ", to_text(clock.power), "}"));
  return concat("[", join(texts, ", "), "]");
}

std::optional<int> megahertz_of(std::string_view clock) {
  int number = 0;
  const char* const end = clock.data() + clock.size();
  const auto [rest, failure] = std::from_chars(clock.data(), end, number);
  const bool is_frequency = failure == std::errc{} && number > 0 &&
                            std::string_view(rest, static_cast<std::size_t>(end - rest)) == "MHz";
  return is_frequency ? std::optional(number) : std::nullopt;
}

Platform load_platform(const std::filesystem::path& file) {
  return read_platform(io::load(file, Bytes(16 << 20)));
}

Platform read_platform(const io::Node& document) {
  io::MapReader map(document);
  map.required("format").choice({std::string(kFormat)});
  const io::Node ranks = map.required("ranks");
  const auto buffers = map.optional("channel_buffers");
  const auto links = map.optional("links");
  const auto replicas = map.optional("replicas");
  map.finish();

  Platform platform;
  const std::vector<io::Node> nodes = ranks.list();
  if (nodes.empty() || nodes.size() > kMaxRanks)
    ranks.fail(concat("has ", nodes.size(), " ranks, must have from 1 to ", kMaxRanks));
  for (const io::Node& node : nodes) platform.ranks.push_back(read_rank(node));
  if (buffers) platform.channel_buffers = buffers->number(0, 1000);
  if (links) read_links(platform, *links);
  if (replicas) {
    io::MapReader link(*replicas);
    platform.replica_link = read_link(link);
    link.finish();
  }
  return platform;
}

std::string to_yaml(const Platform& platform) {
  std::string text = concat("format: ", kFormat, "\nranks:\n");
  for (const RankSpec& rank : platform.ranks) text += rank_line(rank);
  text += concat("channel_buffers: ", to_text(platform.channel_buffers), "\nlinks:\n  default: {",
                 link_text(platform.default_link),
                 "}\n  overrides:", platform.overrides.empty() ? " []" : "", "\n");
  for (const LinkOverride& other : platform.overrides)
    text += concat("    - {between: [", other.from, ", ", other.to, "], ", link_text(other.link),
                   "}\n");
  if (platform.replica_link != LinkSpec{})
    text += concat("replicas: {", link_text(platform.replica_link), "}\n");
  return text;
}

namespace {

Clock read_clock(const io::Node& node) {
  io::MapReader map(node);
  Clock clock;
  clock.name = io::name_in(map.required("name"));
  clock.time = map.required("time").number(1, 1000);
  clock.power = map.required("power").number(1e-3, 1);
  map.finish();
  return clock;
}

RankSpec read_rank(const io::Node& node) {
  io::MapReader map(node);
  RankSpec rank;
  rank.memory = map.required("memory_bytes").bytes();
  if (const auto host = map.optional("host_bytes")) rank.host = host->bytes();
  if (const auto disk = map.optional("disk_bytes")) rank.disk = disk->bytes();
  if (rank.disk > kMaxOffload - rank.host)
    node.fail("has more than 4 EiB of host memory and disk, must have less");
  if (const auto out = map.optional("out_bytes_per_s")) rank.out = read_rate(*out);
  if (const auto in = map.optional("in_bytes_per_s")) rank.in = read_rate(*in);
  if (const auto speed = map.optional("speed")) rank.speed = speed->number(1e-6, 1e6);
  walk_power(
      [&](std::string_view key, Watts& watts) {
        if (const auto found = map.optional(key))
          watts = Watts(found->number(0, kMostWatts.count()));
      },
      rank.power);
  if (const auto latency = map.optional("out_latency_s"))
    rank.out_latency = read_latency(*latency, rank.out, "out_bytes_per_s");
  if (const auto latency = map.optional("in_latency_s"))
    rank.in_latency = read_latency(*latency, rank.in, "in_bytes_per_s");
  if (const auto flops = map.optional("flops_per_s"))
    rank.flops = FlopsPerSecond(read_flops(*flops));
  if (const auto flops = map.optional("flops_per_j"))
    rank.flops_energy = FlopsPerJoule(read_flops(*flops));
  if (const auto copies = map.optional("copies"))
    rank.copies_in_turn = copies->choice({"beside", "in_turn"}) == "in_turn";
  if (const auto clocks = map.optional("clocks")) rank.clocks = read_clocks(*clocks);
  map.finish();
  return rank;
}

void read_links(Platform& platform, const io::Node& node) {
  io::MapReader map(node);
  const auto common = map.optional("default");
  const auto others = map.optional("overrides");
  if (common) {
    io::MapReader link(*common);
    platform.default_link = read_link(link);
    link.finish();
  } else {
    platform.default_link = read_link(map);
  }
  map.finish();
  if (!others) return;
  std::set<std::pair<int, int>> known;
  for (const io::Node& other : others->list()) {
    const LinkOverride link = read_override(other, static_cast<int>(platform.ranks.size()));
    if (!known.insert(std::minmax({link.from, link.to})).second)
      other.fail(concat("is a second link between ", link.from, " and ", link.to));
    platform.overrides.push_back(link);
  }
}

LinkOverride read_override(const io::Node& node, int ranks) {
  io::MapReader map(node);
  const io::Node between = map.required("between");
  const std::vector<io::Node> ends = between.list();
  if (ends.size() != 2)
    between.fail(concat("has ", ends.size(), " entries, must be two ranks such as [0, 1]"));
  LinkOverride link;
  link.from = static_cast<int>(ends[0].integer(0, ranks - 1));
  link.to = static_cast<int>(ends[1].integer(0, ranks - 1));
  if (link.from == link.to) between.fail(concat("names rank ", link.from, " twice"));
  link.link = read_link(map);
  map.finish();
  return link;
}

LinkSpec read_link(io::MapReader& map) {
  LinkSpec link;
  if (const auto rate = map.optional("bytes_per_s")) link.rate = read_rate(*rate);
  const auto latency = map.optional("latency_s");
  if (latency) link.latency = read_time(*latency);
  if (link.latency > Seconds(0) && link.rate == BytesPerSecond(0))
    latency->fail(concat("is ", latency->found(),
                         ", must be 0 where bytes_per_s is 0 or missing: that is a free link"));
  return link;
}

Seconds read_latency(const io::Node& node, BytesPerSecond rate, std::string_view rate_key) {
  const Seconds latency = read_time(node);
  if (latency > Seconds(0) && rate == BytesPerSecond(0))
    node.fail(concat("is ", node.found(), ", must be 0 where ", rate_key,
                     " is 0 or missing: nothing is copied there"));
  return latency;
}

double read_flops(const io::Node& node) {
  const double flops = node.number(0, kMaxFlops);
  if (flops > 0 && flops < 1)
    node.fail(concat("is ", node.found(), ", must be 0 (not said) or at least 1"));
  return flops;
}

BytesPerSecond read_rate(const io::Node& node) {
  double rate = 0;
  if (node.kind() == io::Node::Kind::kScalar && node.text().ends_with("/s")) {
    const std::optional<BytesPerSecond> parsed = parse_rate(node.text());
    if (!parsed) node.fail(concat("is ", node.found(), ", must be a rate such as 12e9 or 12GB/s"));
    rate = parsed->count();
  } else {
    rate = node.number(0, kMaxRate);
  }
  if (rate > kMaxRate)
    node.fail(
        concat("is ", node.found(), ", must be at most ", to_text(kMaxRate), " bytes a second"));
  if (rate > 0 && rate < kMinRate)
    node.fail(concat("is ", node.found(), ", must be 0 (none) or at least ", to_text(kMinRate),
                     " bytes a second"));
  return BytesPerSecond(rate);
}

std::string rank_line(const RankSpec& rank) {
  std::string line =
      concat("  - {memory_bytes: ", rank.memory.count(), ", host_bytes: ", rank.host.count(),
             ", disk_bytes: ", rank.disk.count(), ", out_bytes_per_s: ", to_text(rank.out.count()),
             ", in_bytes_per_s: ", to_text(rank.in.count()), ", speed: ", to_text(rank.speed));
  const auto write = [&](std::string_view key, const auto& value) {
    if (value.count() > 0) line += concat(", ", key, ": ", to_text(value.count()));
  };
  walk_power(write, rank.power);
  write("out_latency_s", rank.out_latency);
  write("in_latency_s", rank.in_latency);
  write("flops_per_s", rank.flops);
  write("flops_per_j", rank.flops_energy);
  if (rank.copies_in_turn) line += ", copies: in_turn";
  if (!rank.clocks.empty()) line += concat(", clocks: ", to_yaml(rank.clocks));
  return line + "}\n";
}

std::string link_text(const LinkSpec& link) {
  return concat("bytes_per_s: ", to_text(link.rate.count()),
                ", latency_s: ", to_text(link.latency.count()));
}

}  // namespace
}  // namespace trireme::chain
