// SPDX-License-Identifier: Apache-2.0
#include "measured_links.h"

#include "trireme/core/text.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <vector>

namespace trireme::app {
namespace {

/// Round trips, of which the median counts; as many before them to warm up.
constexpr int kTrips = 7;
constexpr Bytes kShort(64), kLong(std::int64_t{1} << 20);

/// Half a round trip of a message of `size` bytes between this rank and the next one.
Seconds one_way(const RankContext& context, int lower, Bytes size);
chain::LinkSpec link_from(Seconds of_short, Seconds of_long);

}  // namespace

void measure_links(const RankContext& context, chain::Platform& platform) {
  comm::Channel& channel = context.channel;
  const int rank = channel.rank(), stages = context.stages;
  if (stages == 1 || channel.size() == 1) return;
  chain::LinkSpec to_next;
  // No rank takes part in two exchanges at a time.
  for (const int parity : {0, 1}) {
    comm::barrier(channel, comm::everyone(channel), "begin of measured messages");
    const int stage = rank % stages;
    const bool is_lower = stage % 2 == parity;
    if (is_lower ? stage + 1 == stages : stage == 0) continue;
    const int lower = is_lower ? rank : rank - 1;
    const Seconds of_short = one_way(context, lower, kShort);
    const chain::LinkSpec link = link_from(of_short, one_way(context, lower, kLong));
    if (is_lower) to_next = link;
  }
  const auto all =
      comm::all_gather(channel, comm::everyone(channel), std::vector{to_next}, "measured links");
  std::map<int, chain::LinkSpec> links;  // by the platform's lower rank
  platform.default_link = all.front().front();
  for (int k = 0; k < channel.size(); ++k) {
    if (k % stages + 1 == stages) continue;
    const chain::LinkSpec& link = all[static_cast<std::size_t>(k)].front();
    const auto [entry, is_new] =
        links.try_emplace(k % static_cast<int>(platform.ranks.size()), link);
    if (!is_new) entry->second = chain::slower(entry->second, link);
    platform.default_link = chain::slower(platform.default_link, link);
  }
  for (const auto& [lower, link] : links) platform.overrides.push_back({lower, lower + 1, link});
}

namespace {

Seconds one_way(const RankContext& context, int lower, Bytes size) {
  using comm::Stream;
  comm::Channel& channel = context.channel;
  at::Tensor values = at::zeros(
      {size.count()}, at::TensorOptions(at::kByte).device(context.device.place().device()));
  const comm::MutableBytes bytes(static_cast<std::byte*>(values.mutable_data_ptr()),
                                 values.nbytes());
  const bool asks = channel.rank() == lower;
  std::vector<double> seconds;
  for (int trip = 0; trip < 2 * kTrips; ++trip) {
    const auto begin = std::chrono::steady_clock::now();
    const auto ask = [&] {
      if (asks)
        channel.send(bytes, lower + 1, Stream::kOutputs)->wait("a measured message");
      else
        channel.receive(bytes, lower, Stream::kOutputs)->wait("a measured message");
    };
    const auto answer = [&] {
      if (asks)
        channel.receive(bytes, lower + 1, Stream::kGradients)->wait("a measured answer");
      else
        channel.send(bytes, lower, Stream::kGradients)->wait("a measured answer");
    };
    ask();
    answer();
    const std::chrono::duration<double> both = std::chrono::steady_clock::now() - begin;
    if (trip >= kTrips) seconds.push_back(both.count() / 2);
  }
  std::sort(seconds.begin(), seconds.end());
  return Seconds(seconds[kTrips / 2]);
}

// Two digits: links that are alike shall mostly be equal.
double rounded(double value) {
  const double unit = std::pow(10, std::floor(std::log10(value)) - 1);
  return std::round(value / unit) * unit;
}

chain::LinkSpec link_from(Seconds of_short, Seconds of_long) {
  const double transfer = std::max((of_long - of_short).count(), 1e-9);
  return {.rate = BytesPerSecond(rounded(static_cast<double>(kLong.count()) / transfer)),
          .latency = Seconds(rounded(of_short.count()))};
}

}  // namespace
}  // namespace trireme::app
