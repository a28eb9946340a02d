// SPDX-License-Identifier: Apache-2.0
#include "trireme/chain/platform.h"

#include "support/input_error.h"
#include "support/temporary_folder.h"

#include "trireme/io/file.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace trireme::chain {
namespace {

using support::input_error;

Platform read(const std::string& text) {
  return read_platform(io::parse(text, "p.yaml"));
}

const std::string kTwoRanks =
    "format: trireme-platform/1\nranks: [{memory_bytes: 10}, {memory_bytes: 20}]\n";

TEST(ReadPlatform, ReadsEveryField) {
  const Platform platform = read(
      "format: trireme-platform/1\n"
      "ranks:\n"
      "  - {memory_bytes: 24GiB, host_bytes: 1KiB, disk_bytes: 2KiB, out_bytes_per_s: 12e9,\n"
      "     in_bytes_per_s: 11GB/s, speed: 0.5, busy_w: 700, idle_w: 70.5, copy_out_w: 3,\n"
      "     copy_in_w: 0.33, out_latency_s: 113us, in_latency_s: 1e-4, flops_per_s: 6.37e6,\n"
      "     flops_per_j: 5.8e8, copies: in_turn, clocks: [{name: 1200MHz, time: 1.5, power: "
      "0.5}]}\n"
      "  - {memory_bytes: 7}\n"
      "channel_buffers: 1.5\n"
      "links:\n"
      "  default: {bytes_per_s: 1MiB/s, latency_s: 5us}\n"
      "  overrides:\n"
      "    - {between: [1, 0], bytes_per_s: 2e9, latency_s: 0}\n");

  const RankSpec first{.memory = Bytes(std::int64_t{24} << 30),
                       .host = Bytes(1024),
                       .disk = Bytes(2048),
                       .out = BytesPerSecond(12e9),
                       .in = BytesPerSecond(11e9),
                       .speed = 0.5,
                       .power = {.busy = Watts(700),
                                 .idle = Watts(70.5),
                                 .copy_out = Watts(3),
                                 .copy_in = Watts(0.33)},
                       .out_latency = Seconds(113e-6),
                       .in_latency = Seconds(1e-4),
                       .flops = FlopsPerSecond(6.37e6),
                       .flops_energy = FlopsPerJoule(5.8e8),
                       .copies_in_turn = true,
                       .clocks = {{.name = "1200MHz", .time = 1.5, .power = 0.5}}};
  const LinkSpec common{.rate = BytesPerSecond(1048576), .latency = Seconds(5e-6)};
  const LinkOverride other{.from = 1, .to = 0, .link = {BytesPerSecond(2e9), Seconds(0)}};
  EXPECT_EQ(platform, (Platform{.ranks = {first, RankSpec{.memory = Bytes(7)}},
                                .default_link = common,
                                .overrides = {other},
                                .channel_buffers = 1.5}));
}

TEST(ReadPlatform, TakesRatesBelowAWholeByteOfTheirUnit) {
  EXPECT_EQ(read(kTwoRanks + "links: {bytes_per_s: 0.0004kB/s}\n").default_link.rate,
            BytesPerSecond(0.4));
  EXPECT_EQ(read(kTwoRanks + "links: {bytes_per_s: 100/s}\n").default_link.rate,
            BytesPerSecond(100));
}

TEST(ReadPlatform, TakesOneFlatLinkForAll) {
  const Platform platform = read(kTwoRanks + "links: {bytes_per_s: 100, latency_s: 1}\n");

  EXPECT_EQ(platform.link(0, 1), (LinkSpec{BytesPerSecond(100), Seconds(1)}));
}

TEST(ReadPlatform, TakesAMissingLinkForFree) {
  EXPECT_EQ(read(kTwoRanks).link(0, 1).time(Bytes(1 << 30)), Seconds(0));
}

TEST(Platform, LinksWorkBothWays) {
  Platform platform = uniform_platform(3, Bytes(1));
  platform.default_link = {BytesPerSecond(1), Seconds(0)};
  const LinkSpec fast{BytesPerSecond(100), Seconds(0)};
  platform.overrides = {{.from = 2, .to = 0, .link = fast}};

  EXPECT_EQ(platform.link(0, 2), fast);
  EXPECT_EQ(platform.link(2, 0), fast);
  EXPECT_EQ(platform.link(0, 1), platform.default_link);
  EXPECT_EQ(platform.link(1, 1), LinkSpec{});
}

TEST(LinkSpec, TakesItsLatencyAndThenItsRate) {
  EXPECT_EQ((LinkSpec{BytesPerSecond(100), Seconds(3)}).time(Bytes(1000)), Seconds(13));
  EXPECT_EQ(LinkSpec{}.time(Bytes(1000)), Seconds(0));
}

TEST(HalfOfASum, PassesAllButOnesShareOn) {
  const LinkSpec link{BytesPerSecond(100), Seconds(3)};
  EXPECT_EQ(half_of_a_sum(link, 4, Bytes(1000)), Seconds(3 * (2.5 + 3)));
  EXPECT_EQ(half_of_a_sum(link, 1, Bytes(1000)), Seconds(0));
  EXPECT_EQ(half_of_a_sum({}, 4, Bytes(1000)), Seconds(0));
}

TEST(UniformPlatform, HasEqualRanks) {
  const Platform platform = uniform_platform(3, Bytes(5));

  EXPECT_EQ(platform.ranks, std::vector<RankSpec>(3, RankSpec{.memory = Bytes(5)}));
  EXPECT_EQ(platform.default_link, LinkSpec{});
}

TEST(ToYaml, ReadsBackAsTheSamePlatform) {
  std::mt19937_64 random(5);
  const auto size = [&] {
    return Bytes(static_cast<std::int64_t>(random() >> (3 + random() % 60)));
  };
  const auto rate = [&] { return BytesPerSecond(static_cast<double>(random() % 1000) / 7 + 0.1); };
  const auto watts = [&] { return Watts(static_cast<double>(random() % 3) / 3); };
  const auto flops = [&] { return static_cast<double>(random() % 3) * 1e9 / 7; };
  for (int i = 0; i < 200; ++i) {
    Platform platform;
    const int count = static_cast<int>(1 + random() % 5);
    for (int r = 0; r < count; ++r) {
      platform.ranks.push_back({size(),
                                size(),
                                size(),
                                rate(),
                                rate(),
                                1.0 / (1.0 + r),
                                {watts(), watts(), watts(), watts()},
                                Seconds(watts().count()),
                                Seconds(watts().count()),
                                FlopsPerSecond(flops()),
                                FlopsPerJoule(flops())});
      platform.ranks.back().copies_in_turn = random() % 2 == 0;
      for (std::size_t clock = random() % 3; clock > 0; --clock)
        platform.ranks.back().clocks.push_back({.name = "clock: " + std::to_string(clock),
                                                .time = 1 + rate().count(),
                                                .power = 1 / (1 + rate().count())});
    }
    platform.channel_buffers = static_cast<double>(random() % 3) / 3;
    if (i % 2 == 0) platform.default_link = {rate(), Seconds(1.0 / 3)};
    if (i % 3 == 0) platform.replica_link = {rate(), Seconds(1e-5)};
    for (int r = 1; r < count; ++r)
      platform.overrides.push_back({r, 0, {rate(), Seconds(1e-6 / r)}});
    EXPECT_EQ(read(to_yaml(platform)), platform) << to_yaml(platform);
  }
}

TEST(ToYaml, LeavesOutWhatARankDoesNotSay) {
  // The digests of plans for platforms without these keys stay what they were.
  EXPECT_EQ(to_yaml(uniform_platform(1, Bytes(5))),
            "format: trireme-platform/1\nranks:\n"
            "  - {memory_bytes: 5, host_bytes: 0, disk_bytes: 0, out_bytes_per_s: 0, "
            "in_bytes_per_s: 0, speed: 1}\n"
            "channel_buffers: 0\nlinks:\n  default: {bytes_per_s: 0, latency_s: 0}\n"
            "  overrides: []\n");
}

TEST(LoadPlatform, ReadsWhatWasSaved) {
  const support::TemporaryFolder folder;
  const Platform platform = uniform_platform(4, Bytes(std::int64_t{80} << 30));

  io::write_file(folder / "platform.yaml", to_yaml(platform));

  EXPECT_EQ(load_platform(folder / "platform.yaml"), platform);
}

TEST(LoadPlatform, ReadsEveryPlatformThatComesWithTrireme) {
  const std::filesystem::path folder = TRIREME_SOURCE_DIR "/configs/platforms";
  ASSERT_TRUE(std::filesystem::exists(folder)) << folder;
  for (const auto& file : io::expand((folder / "*.yaml").string()))
    EXPECT_NO_THROW(load_platform(file)) << file;
}

TEST(ReadPlatform, RefusesWhatIsBroken) {
  struct Refused {
    std::string text;
    std::string message;
  };
  const std::vector<Refused> table{
      {"", "1: format is missing"},
      {"format: trireme-chain/1\n", "1: format is trireme-chain/1, must be trireme-platform/1"},
      {"format: trireme-platform/1\n", "1: ranks is missing"},
      {"format: trireme-platform/1\nranks: []\n",
       "2: ranks has 0 ranks, must have from 1 to 65536"},
      {"format: trireme-platform/1\nranks:\n- {memory_bytes: 1}\n- {host_bytes: 1}\n",
       "4: ranks[1].memory_bytes is missing"},
      {"format: trireme-platform/1\nranks:\n- {memory_bytes: 80%}\n",
       "3: ranks[0].memory_bytes is 80%, must be a size such as 2GiB or 4096 (bytes)"},
      {"format: trireme-platform/1\nranks:\n- {memory_bytes: 1, speed: 0}\n",
       "3: ranks[0].speed is 0, must be a number from 1e-06 to 1e+06"},
      {"format: trireme-platform/1\nranks:\n- {memory_bytes: 1, out_bytes_per_s: -1}\n",
       "3: ranks[0].out_bytes_per_s is -1, must be a number from 0 to 1e+18"},
      {"format: trireme-platform/1\nranks:\n- {memory_bytes: 1, in_bytes_per_s: x/s}\n",
       "3: ranks[0].in_bytes_per_s is x/s, must be a rate such as 12e9 or 12GB/s"},
      {"format: trireme-platform/1\nranks:\n- {memory_bytes: 1, in_bytes_per_s: 1.5.5GB/s}\n",
       "3: ranks[0].in_bytes_per_s is 1.5.5GB/s, must be a rate such as 12e9 or 12GB/s"},
      {"format: trireme-platform/1\nranks:\n- {memory_bytes: 1, in_bytes_per_s: 1e-9B/s}\n",
       "3: ranks[0].in_bytes_per_s is 1e-9B/s, must be 0 (none) or at least 1e-06 bytes a second"},
      {"format: trireme-platform/1\nranks:\n- {memory_bytes: 1, in_bytes_per_s: 1e9PB/s}\n",
       "3: ranks[0].in_bytes_per_s is 1e9PB/s, must be at most 1e+18 bytes a second"},
      {"format: trireme-platform/1\nranks:\n- {memory_bytes: 1, host_bytes: 4096PiB, "
       "disk_bytes: 1}\n",
       "3: ranks[0] has more than 4 EiB of host memory and disk, must have less"},
      {"format: trireme-platform/1\nranks:\n- {memory_bytes: 1, disc_bytes: 1}\n",
       "3: ranks[0].disc_bytes is not a key here (did you mean 'disk_bytes'?)"},
      {"format: trireme-platform/1\nranks:\n- {memory_bytes: 1, idle_w: -3}\n",
       "3: ranks[0].idle_w is -3, must be a number from 0 to 1e+06"},
      {"format: trireme-platform/1\nranks:\n- {memory_bytes: 1, out_latency_s: 5us}\n",
       "3: ranks[0].out_latency_s is 5us, must be 0 where out_bytes_per_s is 0 or missing: nothing "
       "is copied there"},
      {"format: trireme-platform/1\nranks:\n- {memory_bytes: 1, out_bytes_per_s: 1, in_latency_s: "
       "1}\n",
       "3: ranks[0].in_latency_s is 1, must be 0 where in_bytes_per_s is 0 or missing: nothing is "
       "copied there"},
      {"format: trireme-platform/1\nranks:\n- {memory_bytes: 1, in_bytes_per_s: 1, in_latency_s: "
       "-1}\n",
       "3: ranks[0].in_latency_s is -1, must be a time such as 1.5ms or 60 (seconds)"},
      {"format: trireme-platform/1\nranks:\n- {memory_bytes: 1, flops_per_s: 1e22}\n",
       "3: ranks[0].flops_per_s is 1e22, must be a number from 0 to 1e+21"},
      {"format: trireme-platform/1\nranks:\n- {memory_bytes: 1, flops_per_j: 0.5}\n",
       "3: ranks[0].flops_per_j is 0.5, must be 0 (not said) or at least 1"},
      {kTwoRanks + "channel_buffers: -1\n",
       "3: channel_buffers is -1, must be a number from 0 to 1000"},
      {kTwoRanks + "link: {}\n", "3: link is not a key here (did you mean 'links'?)"},
      {kTwoRanks + "links: {default: {bytes_per_s: 1}, latency_s: 1}\n",
       "3: links.latency_s is not a key here (known: default, overrides)"},
      {kTwoRanks + "links: {bytes_per_s: 1, latency_s: 1e308}\n",
       "3: links.latency_s is 1e308, must be at most 1e+09 s"},
      {kTwoRanks + "links: {latency_s: 1us}\n",
       "3: links.latency_s is 1us, must be 0 where bytes_per_s is 0 or missing: that is a free "
       "link"},
      {kTwoRanks + "links:\n  overrides:\n    - {bytes_per_s: 1}\n",
       "5: links.overrides[0].between is missing"},
      {kTwoRanks + "links:\n  overrides:\n    - {between: [0]}\n",
       "5: links.overrides[0].between has 1 entries, must be two ranks such as [0, 1]"},
      {kTwoRanks + "links:\n  overrides:\n    - {between: [0, 2]}\n",
       "5: links.overrides[0].between[1] is 2, must be a whole number from 0 to 1"},
      {kTwoRanks + "links:\n  overrides:\n    - {between: [1, 1]}\n",
       "5: links.overrides[0].between names rank 1 twice"},
      {kTwoRanks + "links:\n  overrides:\n    - {between: [0, 1]}\n    - {between: [1, 0]}\n",
       "6: links.overrides[1] is a second link between 1 and 0"}};

  for (const auto& [text, message] : table)
    EXPECT_EQ(input_error([&] { read(text); }), "p.yaml:" + message);
}

TEST(MegahertzOf, ReadsFrequenciesAlone) {
  EXPECT_EQ(megahertz_of("1590MHz"), 1590);
  for (const char* const other : {"", "MHz", "0MHz", "-5MHz", "1.5GHz", "1590 MHz", "1590", "half"})
    EXPECT_EQ(megahertz_of(other), std::nullopt) << other;
}

}  // namespace
}  // namespace trireme::chain
