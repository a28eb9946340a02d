// What a job runs on: ranks with their memories and host links, links between ranks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/io/node.h"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::chain {

/// Power model of a rank, for energy that is not measured; 0: none.
struct Power {
  Watts busy{0};      ///< while it computes; not for passes whose layer says joules
  Watts idle{0};      ///< while it does not compute
  Watts copy_out{0};  ///< in addition, while it copies to the offload tier
  Watts copy_in{0};   ///< in addition, while it copies from the offload tier

  bool operator==(const Power&) const = default;
};

/// Most watts of a power model.
inline constexpr Watts kMostWatts{1e6};

/// A clock at which a rank can compute instead of its usual one.
struct Clock {
  std::string name;  ///< "1200MHz"
  double time = 1;   ///< factor of the time of every pass, at least 1
  double power = 1;  ///< factor of the watts while it computes, above 0 and at most 1

  bool operator==(const Clock&) const = default;
};

/// Reads a rank's `clocks: [{name: 1200MHz, time: 1.15, power: 0.7}]`. Throws InputError, also for
/// two of one name.
std::vector<Clock> read_clocks(const io::Node& list);
/// The same list as YAML in one line.
std::string to_yaml(const std::vector<Clock>& clocks);

/// Calls visit(key, watts) for each number of a power model, const or not, with the keys that ranks
/// have in platform files.
template <class Visit, class Model>
void walk_power(Visit&& visit, Model& power) {
  visit("busy_w", power.busy);
  visit("idle_w", power.idle);
  visit("copy_out_w", power.copy_out);
  visit("copy_in_w", power.copy_in);
}

/// The frequency that a clock's name says: 1590 for "1590MHz"; nothing for other names.
std::optional<int> megahertz_of(std::string_view clock);

struct RankSpec {
  Bytes memory;           ///< device budget
  Bytes host;             ///< offload tier: host memory
  Bytes disk;             ///< offload tier: disk
  BytesPerSecond out{0};  ///< device to offload tier; 0: no offload
  BytesPerSecond in{0};   ///< offload tier to device
  double speed = 1.0;     ///< relative: a layer takes forward / speed
  Power power;
  Seconds out_latency{0};         ///< of one copy, before its bytes; 0 for a chain's copies
  Seconds in_latency{0};          ///< the same, from the offload tier
  FlopsPerSecond flops{0};        ///< for computations whose time is not measured; 0: not said
  FlopsPerJoule flops_energy{0};  ///< for computations whose joules are not measured; 0: not said
  /// Whether copies and compute take turns, as with flash on a microcontroller's bus; for graphs.
  bool copies_in_turn = false;
  std::vector<Clock> clocks = {};  ///< besides the usual one; names differ

  /// All of the offload tier.
  Bytes offload_capacity() const { return host + disk; }
  /// Whether values can be offloaded and copied back.
  bool can_copy() const { return out > BytesPerSecond(0) && in > BytesPerSecond(0); }

  bool operator==(const RankSpec&) const = default;
};

/// Rate 0 stands for a free link: no time at all.
struct LinkSpec {
  BytesPerSecond rate{0};
  Seconds latency{0};

  bool operator==(const LinkSpec&) const = default;
  /// Time of one message.
  Seconds time(Bytes size) const;
};

/// The slower of two, rate and latency each by itself.
LinkSpec slower(const LinkSpec& a, const LinkSpec& b);

/// A link between two ranks that differs from the default; symmetric.
struct LinkOverride {
  int from = 0;
  int to = 0;
  LinkSpec link;

  bool operator==(const LinkOverride&) const = default;
};

struct Platform {
  std::vector<RankSpec> ranks;
  LinkSpec default_link;
  std::vector<LinkOverride> overrides;
  /// Message buffers that the transport holds per pair of ranks and direction, in addition to the
  /// program's own values.
  double channel_buffers = 0;
  /// Link between ranks with the same layers in different replicas, all of which use theirs at
  /// once.
  LinkSpec replica_link = {};

  bool operator==(const Platform&) const = default;
  /// The link between two ranks, in either direction; free between a rank and itself.
  LinkSpec link(int from, int to) const;
};

/// `count` equal ranks with `memory` each and free links.
Platform uniform_platform(int count, Bytes memory);

/// The first `count` ranks, of at least that many, and the links between them.
Platform first_ranks(Platform platform, int count);

/// Most ranks of a platform file.
inline constexpr int kMaxRanks = 65'536;

/// Seconds of half of a ring all-reduce of `size` bytes over the replicas, as reduce-scatter or
/// all-gather: each replica passes on all but its own share (Patarasuk and Yuan 2009).
Seconds half_of_a_sum(const LinkSpec& link, int replicas, Bytes size);

/// Reads `trireme-platform/1`; `links: {default: {...}, overrides: [{between: [0, 1], ...}]}` or
/// one flat default; `replicas: {...}` is the link between replicas. Only `memory_bytes` must be
/// there; the power model of a rank is `busy_w`, `idle_w`, `copy_out_w`, `copy_in_w`, its further
/// clocks are `clocks: [{name: 1200MHz, time: 1.15, power: 0.7}]`; for graphs there are
/// `flops_per_s`, `flops_per_j`, `out_latency_s`, `in_latency_s`, `copies: in_turn` (or `beside`
/// compute). Units are read ("24GiB", "12GB/s", "5us"). Throws InputError with file, line, rank and
/// field; also for an offload tier over 4 EiB, and for the latency of copies without a rate.
Platform load_platform(const std::filesystem::path& file);
Platform read_platform(const io::Node& document);
std::string to_yaml(const Platform& platform);

}  // namespace trireme::chain
