// Joules of layers, by a meter that tests control.
// SPDX-License-Identifier: Apache-2.0
#include "small_jobs.h"
#include "support/temporary_folder.h"

#include "trireme/profile/stored.h"
#include "trireme/profile/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::profile {
namespace {

/// A second passes between two readings. Every layer is metered twice, at `forward` and at `both`
/// watts.
class TwoPowers final : public device::Meter {
 public:
  TwoPowers(double forward, double both) : forward_(forward), both_(both) {}
  std::optional<Reading> read() override {
    const int place = reads_ % 4;
    taken_ += place == 1 ? forward_ : place == 3 ? both_ : 0;
    return Reading{.taken = Joules(taken_), .at = Seconds(reads_++)};
  }
  std::string describe() const override { return "two powers"; }

 private:
  double forward_, both_, taken_ = 0;
  int reads_ = 0;
};

config::JobSpec small() {
  return job_of(config::MlpSpec{.inputs = 4, .widths = {6, 8}, .classes = 2}, 2);
}

chain::Chain metered(device::Meter& meter) {
  MeasureOptions options = quick();
  options.meter = &meter;
  const config::JobSpec job = small();
  return measure(model::make_model(job.model), job, options);
}

TEST(MeasuredEnergy, IsTheTimeOfAPassByThePowerOfItsKind) {
  TwoPowers meter(50, 80);
  for (const chain::LayerCost& layer : metered(meter).layers) {
    EXPECT_DOUBLE_EQ(layer.forward_energy.count(), 50 * layer.forward.count());
    EXPECT_DOUBLE_EQ((layer.forward_energy + layer.backward_energy).count(),
                     80 * (layer.forward + layer.backward).count());
  }
}

TEST(MeasuredEnergy, IsNoneWhereTheMeterStandsStill) {
  TwoPowers meter(0, 0);
  EXPECT_FALSE(has_joules(metered(meter)));
  EXPECT_THAT(to_table(metered(meter)), testing::Not(testing::HasSubstr("forward energy")));
}

TEST(MeasuredEnergy, IsShownInTheTable) {
  TwoPowers meter(50, 80);
  const chain::Chain chain = metered(meter);
  EXPECT_TRUE(has_joules(chain));
  EXPECT_THAT(to_table(chain), testing::HasSubstr("forward energy  backward energy"));
}

TEST(MeasuredEnergy, HasAProfileOfItsOwnThatServesForTimesToo) {
  const support::TemporaryFolder folder;
  const config::JobSpec job = small();
  const model::ChainModel model = model::make_model(job.model);
  TwoPowers meter(50, 80);
  const auto profiled = [&](device::Meter* with) {
    MeasureOptions options = quick();
    options.meter = with;
    return load_or_measure(model, job, options, folder.path() / "profiles", Reuse::kAllowed);
  };
  const Stored times = profiled(nullptr);
  EXPECT_FALSE(times.was_there);
  const Stored joules = profiled(&meter);
  EXPECT_FALSE(joules.was_there);
  EXPECT_NE(joules.file, times.file);
  EXPECT_TRUE(has_joules(joules.chain));
  for (const bool has_meter : {false, true}) {
    const Stored again = profiled(has_meter ? &meter : nullptr);
    EXPECT_TRUE(again.was_there);
    EXPECT_EQ(again.chain, joules.chain);
  }
}

}  // namespace
}  // namespace trireme::profile
