// Energy of steps, by a meter that tests control.
// SPDX-License-Identifier: Apache-2.0
#include "small_runs.h"

#include "trireme/comm/local.h"
#include "trireme/tier/memory.h"

#include <gtest/gtest.h>

#include <optional>

namespace trireme::runtime {
namespace {

/// Counts 3 joules between any two readings, of which it gives `readings`.
class ThreeEach final : public device::Meter {
 public:
  explicit ThreeEach(int readings) : left_(readings) {}
  std::optional<Reading> read() override {
    if (left_-- == 0) return std::nullopt;
    taken_ += 3;
    return Reading{.taken = Joules(taken_), .at = Seconds(taken_)};
  }
  std::string describe() const override { return "three each"; }

 private:
  int left_;
  double taken_ = 0;
};

/// Three steps on two ranks, of which the first has the meter.
RunSummary metered(device::Meter* meter) {
  tier::install_cpu_allocator();
  config::JobSpec job = small_job(small_mlp());
  job.pipeline.replicas = 1;
  const model::ChainModel model = model::make_model(job.model);
  const plan::Plan plan = plan_of(model, job, {.cut = {2}});
  const DataSource data = random_data(model, job);
  const program::Program program = program_of(plan, model);
  RunSummary of_rank_0;
  comm::run_local(2, {.timeout = Seconds(30), .stop_requested = {}}, [&](comm::Channel& channel) {
    const bool is_first = channel.rank() == 0;
    Trainer trainer({.job = job,
                     .model = model,
                     .plan = plan,
                     .program = program,
                     .data = data,
                     .channel = channel,
                     .memory = tier::MemoryAccount::open("rank"),
                     .meter = is_first ? meter : nullptr,
                     .owns_process = false,
                     .stop_requested = {},
                     .since_start = [] { return Seconds(0); }});
    const FinishedRun run = trainer.run(nullptr);
    if (is_first) of_rank_0 = run.summary;
    channel.close();
  });
  return of_rank_0;
}

TEST(Meter, CountsStepsAndNothingBetweenThem) {
  ThreeEach meter(1000);
  const RunSummary summary = metered(&meter);
  EXPECT_EQ(record::measured_energy(summary), Joules(3));
  EXPECT_TRUE(summary.ranks[0].has_meter);
  EXPECT_FALSE(summary.ranks[1].has_meter);
}

TEST(Meter, ThatFailsOrIsMissingEndsNoRun) {
  for (const int readings : {0, 1, 5}) {
    ThreeEach meter(readings);
    const RunSummary summary = metered(&meter);
    EXPECT_EQ(summary.steps, 3);
    EXPECT_EQ(record::measured_energy(summary), std::nullopt);
  }
  EXPECT_EQ(record::measured_energy(metered(nullptr)), std::nullopt);
}

}  // namespace
}  // namespace trireme::runtime
