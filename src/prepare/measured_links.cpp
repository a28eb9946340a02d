// SPDX-License-Identifier: Apache-2.0
#include "measured_links.h"

#include "two_digits.h"

#include "trireme/core/text.h"
#include "trireme/runtime/links.h"
#include "trireme/runtime/replica_sum.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <vector>

namespace trireme::prepare {
namespace {

/// Number of round trips, whose median counts; as many run before them to warm up.
constexpr int kTrips = 7;
constexpr Bytes kShort(64);
/// Number of sums over replicas that are timed, likewise.
constexpr int kSums = 5;

/// Which of two ranks this one is: the lower one asks, the upper one answers.
enum class Side { kLower, kUpper };
/// The link to the rank `distance` ranks further on or back. Both ends call it.
chain::LinkSpec measured(const ranks::RankContext& context, Side side, int distance);
/// Half a round trip of a message of `size` bytes.
Seconds one_way(const ranks::RankContext& context, Side side, int distance, Bytes size);
/// Time of a sum of `numbers` numbers over the ranks of a group.
Seconds sum_time(const ranks::RankContext& context, const std::vector<int>& group,
                 std::int64_t numbers);

}  // namespace

Bytes long_message(const ranks::RankDevice& device) {
  return Bytes(std::int64_t{device.place().device().is_cpu() ? 1 : 16} << 20);
}

void measure_links(const ranks::RankContext& context, chain::Platform& platform) {
  comm::Channel& channel = context.channel;
  const int stages = context.stages, stage = channel.rank() % stages;
  if (stages == 1 || channel.size() == 1) return;
  context.device.connect(runtime::links_to_measure(channel.size(), stages));
  // No rank takes part in two exchanges at a time. The ends of the pipeline stand for all pairs
  // that are not neighbours.
  chain::LinkSpec to_next, to_end;
  for (const int parity : {0, 1}) {
    comm::barrier(channel, comm::everyone(channel), "begin of measured messages");
    const bool is_lower = stage % 2 == parity;
    if (is_lower && stage + 1 < stages) to_next = measured(context, Side::kLower, 1);
    if (!is_lower && stage > 0) measured(context, Side::kUpper, 1);
  }
  if (stages > 2) {
    comm::barrier(channel, comm::everyone(channel), "begin of measured messages");
    if (stage == 0) to_end = measured(context, Side::kLower, stages - 1);
    if (stage + 1 == stages) measured(context, Side::kUpper, stages - 1);
  }
  const auto all = comm::all_gather(channel, comm::everyone(channel), std::vector{to_next, to_end},
                                    "measured links");
  std::map<int, chain::LinkSpec> links;  // by the platform's lower rank
  platform.default_link = all.front().back();
  for (int k = 0; k < channel.size(); ++k) {
    if (k % stages + 1 == stages) continue;
    const chain::LinkSpec& link = all[static_cast<std::size_t>(k)].front();
    const auto [entry, is_new] =
        links.try_emplace(k % static_cast<int>(platform.ranks.size()), link);
    if (!is_new) entry->second = chain::slower(entry->second, link);
    platform.default_link = chain::slower(platform.default_link, link);
    platform.default_link =
        chain::slower(platform.default_link, all[static_cast<std::size_t>(k)].back());
  }
  for (const auto& [lower, link] : links) platform.overrides.push_back({lower, lower + 1, link});
}

chain::LinkSpec measured_sum(const ranks::RankContext& context, const std::vector<int>& group) {
  const auto replicas = static_cast<int>(group.size());
  const std::int64_t numbers = long_message(context.device).count();
  const Seconds of_short = sum_time(context, group, replicas);
  const Seconds of_long = sum_time(context, group, numbers);
  const double bytes = static_cast<double>(numbers) * sizeof(float);
  const double transfer = std::max((of_long - of_short).count(), 1e-9);
  const chain::LinkSpec mine{
      .rate = BytesPerSecond(two_digits(2.0 * (replicas - 1) / replicas * bytes / transfer)),
      .latency = Seconds(two_digits(of_short.count() / (2.0 * (replicas - 1))))};
  chain::LinkSpec slowest = mine;
  for (const auto& other : comm::all_gather(context.channel, comm::everyone(context.channel),
                                            std::vector{mine}, "measured sums"))
    slowest = chain::slower(slowest, other.front());
  return slowest;
}

namespace {

Seconds sum_time(const ranks::RankContext& context, const std::vector<int>& group,
                 std::int64_t numbers) {
  comm::Channel& channel = context.channel;
  const at::Tensor values =
      at::zeros({numbers}, at::TensorOptions(at::kFloat).device(context.device.place().device()));
  std::vector<double> times;
  for (int run = 0; run < 2 * kSums; ++run) {
    comm::barrier(channel, comm::everyone(channel), "begin of a measured sum");
    const auto begin = std::chrono::steady_clock::now();
    runtime::sum_over_replicas(channel, group, values, "measured sum");
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    if (run >= kSums) times.push_back(time.count());
  }
  std::sort(times.begin(), times.end());
  return Seconds(times[kSums / 2]);
}

Seconds one_way(const ranks::RankContext& context, Side side, int distance, Bytes size) {
  comm::Channel& channel = context.channel;
  const bool asks = side == Side::kLower;
  const int peer = channel.rank() + (asks ? distance : -distance);
  at::Tensor values = at::zeros(
      {size.count()}, at::TensorOptions(at::kByte).device(context.device.place().device()));
  const comm::MutableBytes bytes(static_cast<std::byte*>(values.mutable_data_ptr()),
                                 values.nbytes());
  const auto pass_on = [&](bool sends, comm::Stream stream) {
    const auto transfer =
        sends ? channel.send(bytes, peer, stream) : channel.receive(bytes, peer, stream);
    transfer->wait("a measured message");
  };
  std::vector<double> seconds;
  for (int trip = 0; trip < 2 * kTrips; ++trip) {
    const auto begin = std::chrono::steady_clock::now();
    pass_on(asks, comm::Stream::kOutputs);
    pass_on(!asks, comm::Stream::kGradients);
    const std::chrono::duration<double> both = std::chrono::steady_clock::now() - begin;
    if (trip >= kTrips) seconds.push_back(both.count() / 2);
  }
  std::sort(seconds.begin(), seconds.end());
  return Seconds(seconds[kTrips / 2]);
}

chain::LinkSpec measured(const ranks::RankContext& context, Side side, int distance) {
  const Seconds of_short = one_way(context, side, distance, kShort);
  const Bytes size = long_message(context.device);
  const Seconds of_long = one_way(context, side, distance, size);
  const double transfer = std::max((of_long - of_short).count(), 1e-9);
  return {.rate = BytesPerSecond(two_digits(static_cast<double>(size.count()) / transfer)),
          .latency = Seconds(two_digits(of_short.count()))};
}

}  // namespace
}  // namespace trireme::prepare
