// SPDX-License-Identifier: Apache-2.0
#include "step_samples.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace trireme::runtime {
namespace {

using Places = std::vector<std::size_t>;

/// Samples of `steps` steps; the n-th ended after n seconds.
StepSamples samples_of(int steps) {
  StepSamples samples;
  for (int n = 0; n < steps; ++n) {
    Recording recording;
    recording.totals.end = Seconds(n);
    samples.add(std::move(recording));
  }
  return samples;
}

TEST(StepSamples, KeepsTheFirstStepOnlyWhileItIsAlone) {
  EXPECT_EQ(samples_of(0).places(), Places{});
  EXPECT_EQ(samples_of(1).places(), Places{0});
  EXPECT_EQ(samples_of(2).places(), Places{1});
  EXPECT_EQ(samples_of(9).places(), (Places{1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST(StepSamples, AreSpreadEvenlyOverAllSteps) {
  EXPECT_EQ(samples_of(10).places(), (Places{1, 3, 5, 7, 9}));
  for (int steps = 2; steps < 600; ++steps) {
    const Places places = samples_of(steps).places();
    ASSERT_LE(places.size(), StepSamples::kMost) << steps;
    ASSERT_GE(places.size(), std::min<std::size_t>(static_cast<std::size_t>(steps) - 1, 4))
        << steps;
    for (std::size_t k = 2; k < places.size(); ++k)
      ASSERT_EQ(places[k] - places[k - 1], places[1] - places[0]) << steps;
  }
}

TEST(StepSamples, GiveTheRecordingOfTheirStep) {
  const StepSamples samples = samples_of(100);
  for (const std::size_t place : samples.places())
    EXPECT_EQ(samples.at(place).totals.end, Seconds(static_cast<double>(place)));
}

}  // namespace
}  // namespace trireme::runtime
