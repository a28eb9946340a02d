// What a note says to do where layers have to be measured again.
// SPDX-License-Identifier: Apache-2.0
#include "commands/measure_again.h"

#include "trireme/io/node.h"

#include <gtest/gtest.h>

#include <string>

namespace trireme::app {
namespace {

config::JobSpec a_job() {
  config::JobSpec job(io::parse("{}", "job.yaml"));
  job.report.directory = "/some runs/first";
  return job;
}

TEST(MeasureAgain, IsACommandOfAJobInAFile) {
  const config::JobSpec job = a_job();
  const GivenJob given{.file = "job.yaml", .settings = {"train.steps=3"}};
  EXPECT_EQ(measure_again(given, job, job, 1, false),
            "`trireme profile --fresh job.yaml --set train.steps=3`");
  EXPECT_EQ(measure_again(given, job, job, 2, true),
            "`trireme profile --fresh job.yaml --set train.steps=3 --set pipeline.stages=2` and "
            "again with --set memory.tapes=lean");
}

TEST(MeasureAgain, IsDeletingWhatWasMeasuredWhereAProgramHandsTheJobOver) {
  const config::JobSpec job = a_job();
  const std::string expected = "`rm -r '/some runs/.profiles'` and the same run";
  EXPECT_EQ(measure_again({.file = "python", .text = "{}"}, job, job, 2, true), expected);
  EXPECT_EQ(measure_again({.file = "job.yaml", .model = "python"}, job, job, 1, false), expected);
}

}  // namespace
}  // namespace trireme::app
