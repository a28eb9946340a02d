// What the runtime may assume of an asynchronous device, tested on a CPU that behaves like one: its
// marks have no time before they are settled, and what it computes on was fetched.
// SPDX-License-Identifier: Apache-2.0
#include "support/late_place.h"

#include "small_runs.h"
#include "update/clip.h"
#include "update/late_scalars.h"
#include "update/step_clock.h"

#include "trireme/comm/local.h"
#include "trireme/runtime/warm_up.h"
#include "trireme/tier/memory.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

namespace trireme::runtime {
namespace {

TEST(LatePlace, TrainsToTheSameBits) {
  const config::JobSpec job = small_job(small_gpt());
  const RunSummary expected = run_small(job, {});
  for (const std::vector<int>& cut : {std::vector<int>{}, {2}}) {
    const device::LatePlace place;
    const RunSummary late = run_small(job, {.cut = cut, .recompute = true}, {}, place);
    EXPECT_EQ(late.losses_digest, expected.losses_digest);
    EXPECT_EQ(late.parameters_digest, expected.parameters_digest);
    const int micro_batches = config::micro_batches(job) * job.train.steps + 2;  // 2 validate
    EXPECT_EQ(place.fetched, 2 * micro_batches) << "inputs and targets";
    EXPECT_EQ(place.depth, 0);
  }
}

TEST(LatePlace, TimesAreThoseOfTheMarks) {
  const device::LatePlace place;
  const FinishedRun run = run_recorded(small_job(small_mlp()), {}, {}, place);
  double last = 0;
  for (const simulate::Event& event : run.recorded.step.events) {
    EXPECT_LT(event.begin, event.end);
    EXPECT_NEAR(std::remainder(event.end.count(), 1e-3), 0, 1e-9) << "a whole number of marks";
    last = std::max(last, event.end.count());
  }
  EXPECT_GT(last, 0);
  EXPECT_NEAR(std::remainder(run.summary.ranks.at(0).times.backward.count(), 1e-3), 0, 1e-9);
}

TEST(StepClock, AddsIntervalsOnlyOnceAllIsDone) {
  StepClock clock(std::make_unique<device::LateMarks>());
  Seconds offload{0}, inner{0};
  clock.begin();
  {
    const Stopwatch whole(clock, offload);
    { const Stopwatch part(clock, inner); }
    { const Stopwatch part(clock, inner); }
  }
  EXPECT_EQ(offload, Seconds(0));
  clock.settle();
  EXPECT_DOUBLE_EQ(offload.count(), 5e-3);
  EXPECT_DOUBLE_EQ(inner.count(), 2e-3);
}

TEST(LateScalars, AreReadInOrderAndForgotten) {
  LateScalars scalars(device::cpu(), at::kFloat);
  for (std::size_t i = 0; i < 200; ++i)
    scalars.put(i, at::full({1}, static_cast<double>(i) + 0.5, at::kFloat));
  scalars.put(2, -1.0);
  std::vector<double> read = scalars.take();
  ASSERT_EQ(read.size(), 200U);
  EXPECT_EQ(read[0], 0.5);
  EXPECT_EQ(read[2], -1.0);
  EXPECT_EQ(read[199], 199.5);
  EXPECT_TRUE(scalars.take().empty());
  scalars.put(1, at::scalar_tensor(7.0));
  EXPECT_EQ(scalars.take(), (std::vector<double>{0, 7}));
}

TEST(LateScalars, CountOnNoAccount) {
  tier::install_cpu_allocator();
  tier::MemoryAccount& account = tier::MemoryAccount::open("rank 0");
  const tier::AccountScope scope(account);
  LateScalars scalars(device::cpu(), at::kFloat);
  scalars.put(3, 1.0);
  EXPECT_EQ(account.live(), Bytes(0));
}

/// The divisor by which gradients, the values of a chain, are clipped to `limit`, on every rank.
std::vector<at::Tensor> divisors(int ranks, double limit, double& norm, bool on_device) {
  const config::JobSpec job = small_job(small_gpt());
  const model::ChainModel model = model::make_model(job.model);
  std::vector<at::Tensor> of_ranks(static_cast<std::size_t>(ranks));
  comm::run_local(ranks, {.timeout = Seconds(30), .stop_requested = {}},
                  [&](comm::Channel& channel) {
                    std::vector<int> layers;
                    for (int i = 1; i <= model.length(); ++i) {
                      if ((i - 1) * ranks / model.length() == channel.rank()) layers.push_back(i);
                    }
                    Stage stage(model, layers, job.train.seed);
                    Reducer reducer(channel, Position::of(channel.rank(), 1, ranks), stage);
                    for (const StageParameter& parameter : stage.parameters()) {
                      at::Tensor gradient = parameter.gradient;
                      gradient.copy_(parameter.value);
                    }
                    LateScalars norms(device::cpu(), at::kDouble);
                    of_ranks[static_cast<std::size_t>(channel.rank())] =
                        on_device ? clip_divisor_on_device(reducer, limit, norms)
                                  : clip_divisor(reducer, stage, limit, norms);
                    if (channel.rank() == 0) norm = norms.take().at(0);
                  });
  return of_ranks;
}

TEST(ClipOnDevice, IsTheHostsToRoundingAndTheSameBitsForEveryNumberOfStages) {
  double host_norm = 0, device_norm = 0, norm_of_three = 0;
  const auto host = divisors(1, 0.5, host_norm, false);
  const auto device = divisors(1, 0.5, device_norm, true);
  const auto of_three = divisors(3, 0.5, norm_of_three, true);
  EXPECT_GT(host_norm, 0.5);
  EXPECT_NEAR(device_norm, host_norm, 1e-5 * host_norm);
  EXPECT_EQ(norm_of_three, device_norm);
  EXPECT_EQ(host.at(0).item<float>(), static_cast<float>(host_norm / 0.5));
  EXPECT_TRUE(at::allclose(host.at(0), device.at(0), 1e-5));
  for (const at::Tensor& of_rank : of_three) EXPECT_TRUE(at::equal(of_rank, device.at(0)));
}

TEST(ClipOnDevice, LeavesGradientsWithinTheLimitAsTheyAre) {
  double norm = 0;
  for (const bool on_device : {false, true})
    EXPECT_EQ(divisors(1, 1e9, norm, on_device).at(0).item<float>(), 1) << on_device;
}

TEST(WarmUp, LeavesNothingBehind) {
  tier::install_cpu_allocator();
  tier::MemoryAccount& account = tier::MemoryAccount::open("rank 0");
  const tier::AccountScope scope(account);
  warm_up(device::cpu());
  EXPECT_EQ(account.live(), Bytes(0));
}

}  // namespace
}  // namespace trireme::runtime
