// Jobs for energy and deadlines, end to end.
// SPDX-License-Identifier: Apache-2.0
#include "budgets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>

namespace trireme {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const std::string kCosts =
    "energy: {busy_w: 10, idle_w: 1, clocks: [{name: half, time: 2, power: 0.25}]}\n";

TEST(EnergyJob, IsPlannedForLeastEnergyAndTrained) {
  const TemporaryFolder folder;
  const std::string job = small_job(folder, kCosts) + " --set plan.objective=energy";

  const CommandResult check = run_command(kTrireme + " check " + job);
  EXPECT_EQ(check.exit_code, 0) << check.errors;
  EXPECT_THAT(check.out, HasSubstr("\nenergy    "));
  EXPECT_THAT(check.out, HasSubstr("clocks    half forward, half backward"));

  const CommandResult run = run_command(kTrireme + " train " + job);
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.out, HasSubstr(" of energy"));
  EXPECT_THAT(run.out, HasSubstr("note: the plan names clocks"));
  const json plan = json::parse(text_of(small_run(folder) / "plan.json"));
  EXPECT_EQ(plan["stages"][0]["forward_clock"], "half");
  EXPECT_GT(plan["predicted"]["energy_j"], 0);
}

TEST(EnergyJob, ThatIsLateEndsWith3AndTheLeastDeadline) {
  const TemporaryFolder folder;
  const std::string check = kTrireme + " check " + small_job(folder, kCosts) +
                            " --set memory.tapes=full --set plan.deadline=";

  const CommandResult late = run_command(check + "1ns");

  EXPECT_EQ(late.exit_code, 3);
  EXPECT_THAT(late.errors,
              HasSubstr("--set plan.deadline is 1ns, but the fastest step found takes "));
  const std::string give = "Give plan.deadline: ";
  const std::size_t begin = late.errors.find(give);
  ASSERT_NE(begin, std::string::npos) << late.errors;
  const std::string rest = late.errors.substr(begin + give.size());
  const CommandResult in_time = run_command(check + rest.substr(0, rest.find(' ')));
  EXPECT_EQ(in_time.exit_code, 0) << in_time.errors;
}

/// A machine with RAPL whose counter stands still.
std::string still_rapl(const TemporaryFolder& folder) {
  const std::filesystem::path zone = folder.path() / "powercap" / "intel-rapl:0";
  std::filesystem::create_directories(zone);
  std::ofstream(zone / "name") << "package-0\n";
  std::ofstream(zone / "energy_uj") << "12345\n";
  std::ofstream(zone / "max_energy_range_uj") << "262143328850\n";
  return "TRIREME_POWERCAP=" + zone.parent_path().string() + " ";
}

TEST(EnergyJob, SaysWhatAMeterHasMeasuredBesideWhatWasPredicted) {
  const TemporaryFolder folder;
  const std::string train = kTrireme + " train " + small_job(folder, "energy: {busy_w: 10}\n") +
                            " --set plan.objective=energy --set pipeline.stages=2";

  const CommandResult metered = run_command(still_rapl(folder) + train);
  EXPECT_EQ(metered.exit_code, 0) << metered.errors;
  EXPECT_THAT(metered.out, HasSubstr("; by RAPL, 1 package, which counts all programs"));
  const json with = summary_of(folder)["energy_j"];
  EXPECT_EQ(with["step"], 0);
  EXPECT_EQ(with["meter"], "RAPL, 1 package");
  EXPECT_GT(with["predicted_step"], 0);
  EXPECT_EQ(with["predicted_example"], with["predicted_step"].get<double>() / 8);

  const CommandResult unmetered = run_command("TRIREME_POWERCAP=/nowhere " + train);
  EXPECT_EQ(unmetered.exit_code, 0) << unmetered.errors;
  EXPECT_THAT(unmetered.out, HasSubstr("not measured: no meter can be read"));
  EXPECT_EQ(summary_of(folder)["energy_j"]["step"], nullptr);
}

TEST(EnergyJob, IsRefusedWithWhatToWrite) {
  const TemporaryFolder folder;
  const CommandResult refused =
      run_command(kTrireme + " train " + small_job(folder) + " --set plan.objective=energy");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.errors, HasSubstr("energy: {busy_w: 700, idle_w: 100}"));
}

}  // namespace
}  // namespace trireme
