// Profiling of a device that works asynchronously.
// SPDX-License-Identifier: Apache-2.0
#include "support/late_place.h"

#include "small_jobs.h"

#include "trireme/profile/measure.h"
#include "trireme/profile/stored.h"
#include "trireme/tier/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace trireme::profile {
namespace {

TEST(Measure, OfALatePlaceFindsTheSameBytesAndTheMarksTimes) {
  tier::install_cpu_allocator();
  const config::JobSpec job =
      job_of(config::GptSpec{.blocks = 1, .width = 32, .heads = 2, .context = 16}, 2);
  const model::ChainModel model = model::make_model(job.model);
  const MeasureOptions here{.least_time = Seconds(0), .least_runs = 2};
  const device::LatePlace place;
  const MeasureOptions there{.least_time = Seconds(0),
                             .least_runs = 2,
                             .place = place,
                             .memory = &tier::MemoryAccount::open("late")};

  const chain::Chain expected = measure(model, job, here), late = measure(model, job, there);

  ASSERT_EQ(late.length(), expected.length());
  for (int i = 1; i <= late.length(); ++i) {
    chain::LayerCost cost = expected.layer(i);
    EXPECT_GT(late.layer(i).forward, Seconds(0));
    EXPECT_NEAR(std::remainder(late.layer(i).backward.count(), 1e-3), 0, 1e-9);
    cost.forward = late.layer(i).forward;
    cost.backward = late.layer(i).backward;
    cost.update = late.layer(i).update;
    ASSERT_EQ(late.layer(i).retape.has_value(), cost.retape.has_value()) << i;
    if (cost.retape) {
      EXPECT_GT(late.layer(i).retape->time, Seconds(0));
      EXPECT_LE(late.layer(i).retape->time, late.layer(i).forward);
      cost.retape->time = late.layer(i).retape->time;
    }
    ASSERT_EQ(late.layer(i).split.has_value(), cost.split.has_value()) << i;
    if (cost.split) {
      EXPECT_LE(late.layer(i).split->weights, late.layer(i).backward);
      cost.split->weights = late.layer(i).split->weights;
    }
    EXPECT_EQ(late.layer(i), cost) << i;
  }
}

TEST(Machine, NamesADeviceThatIsNotTheProcessor) {
  const std::string processor = machine(2);
  EXPECT_EQ(processor, device::cpu().model_name() + ", 2 threads");
  EXPECT_EQ(machine(2, device::LatePlace()),
            "late " + device::cpu().model_name() + " on " + processor);
}

}  // namespace
}  // namespace trireme::profile
