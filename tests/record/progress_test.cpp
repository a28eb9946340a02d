// SPDX-License-Identifier: Apache-2.0
#include "trireme/record/progress.h"

#include <gtest/gtest.h>

#include <limits>
#include <sstream>

namespace trireme::record {
namespace {

TEST(Progress, PrintsPlainLinesAtTheFirstEveryTenthAndLastStep) {
  std::ostringstream out;
  Progress progress(out, {.steps = 25, .log_every = 10}, Seconds(100));

  for (int done = 1; done <= 25; ++done)
    progress.step(done, 5.0 - 0.1 * done, 8192 * done, Seconds(100 + 2 * done));
  progress.close();

  EXPECT_EQ(out.str(),
            "step  1/25  loss 4.9000  4096 tokens/s  48.0 s left\n"
            "step 10/25  loss 4.0000  4096 tokens/s  30.0 s left\n"
            "step 20/25  loss 3.0000  4096 tokens/s  10.0 s left\n"
            "step 25/25  loss 2.5000  4096 tokens/s\n");
}

TEST(Progress, RewritesTheTerminalsLineInPlace) {
  std::ostringstream out;
  Progress progress(out, {.is_terminal = true, .steps = 300}, Seconds(0));

  progress.step(1, 5.5, 1000, Seconds(0.5));
  progress.step(2, 5.25, 2000, Seconds(1));
  progress.close();
  progress.close();

  EXPECT_EQ(out.str(),
            "\r\x1b[Kstep   1/300  loss 5.5000  2000 tokens/s  2:30 min left"
            "\r\x1b[Kstep   2/300  loss 5.2500  2000 tokens/s  2:29 min left\n");
}

TEST(Progress, RedrawsAtMostTenTimesASecondButAlwaysTheLastStep) {
  std::ostringstream out;
  Progress progress(out, {.is_terminal = true, .steps = 64}, Seconds(0));

  for (int done = 1; done <= 64; ++done) progress.step(done, 1, done, Seconds(done / 64.0));

  std::size_t drawn = 0;
  for (const char c : out.str()) drawn += c == '\r' ? 1 : 0;
  // Steps 1, 8, 15, ... 64: the first, then every 7 / 64 s; the last falls on one of them.
  EXPECT_EQ(drawn, 10U);
  EXPECT_NE(out.str().find("step 64/64"), std::string::npos);
}

TEST(Progress, ValidationLeavesALineOfItsOwn) {
  std::ostringstream plain;
  Progress to_file(plain, {.steps = 300}, Seconds(0));
  std::ostringstream terminal;
  Progress to_terminal(terminal,
                       {.is_terminal = true, .steps = 300, .first_step = 99, .unit = "examples"},
                       Seconds(0));

  to_file.validation(100, 2.20105);
  to_terminal.step(100, 2, 1, Seconds(0.25));
  to_terminal.validation(100, 2.5);
  to_terminal.validation(100, 2.25);

  EXPECT_EQ(plain.str(), "step 100/300  validation loss 2.2010\n");
  EXPECT_EQ(terminal.str(),
            "\r\x1b[Kstep 100/300  loss 2.0000  4.00 examples/s  50.0 s left"
            "\r\x1b[Kstep 100/300  validation loss 2.5000\n"
            "step 100/300  validation loss 2.2500\n");
}

TEST(Progress, ForgetsASlowStart) {
  std::ostringstream out;
  Progress progress(out, {.steps = 100, .log_every = 50}, Seconds(0));

  for (int done = 1; done <= 50; ++done) progress.step(done, 1, 10 * done, Seconds(1000 + done));

  EXPECT_EQ(out.str(),
            "step   1/100  loss 1.0000  0.01 tokens/s  27:31:39 h left\n"
            "step  50/100  loss 1.0000  10.0 tokens/s  50.0 s left\n");
}

// Rows of documents are filled unevenly: 100 tokens in the first second, 900 in the second.
TEST(Progress, TakesSpeedFromTheTokensThatThereWere) {
  std::ostringstream out;
  Progress progress(out, {.steps = 2, .log_every = 1}, Seconds(0));

  progress.step(1, 1, 100, Seconds(1));
  progress.step(2, 1, 1000, Seconds(2));

  EXPECT_EQ(out.str(),
            "step 1/2  loss 1.0000  100 tokens/s  1.00 s left\n"
            "step 2/2  loss 1.0000  500 tokens/s\n");
}

TEST(Progress, SaysWhatItKnowsWhenTheClockStandsOrTheLossIsLost) {
  std::ostringstream out;
  Progress progress(out, {.steps = 10}, Seconds(3));

  progress.step(1, std::numeric_limits<double>::quiet_NaN(), 1, Seconds(3));

  EXPECT_EQ(out.str(), "step  1/10  loss nan\n");
}

TEST(Progress, ACheckpointLeavesALineOfItsOwn) {
  std::ostringstream out;
  Progress progress(out, {.steps = 300}, Seconds(0));

  progress.saved(100, Bytes(64 << 20), Seconds(0.25), Seconds(0.25));

  progress.saved(200, Bytes(64 << 20), Seconds(0.25), Seconds(0.05));

  EXPECT_EQ(out.str(),
            "step 100/300  checkpoint of 64.0 MiB in 250 ms\n"
            "step 200/300  checkpoint of 64.0 MiB in 250 ms, steps held up for 50.0 ms\n");
}

TEST(Progress, CountsFromWhereTheRunWasResumed) {
  std::ostringstream out;
  Progress progress(out, {.steps = 300, .first_step = 200}, Seconds(0));

  progress.step(201, 1, 2'000'000, Seconds(1));

  EXPECT_EQ(out.str(), "step 201/300  loss 1.0000  2.00M tokens/s  1:39 min left\n");
}

}  // namespace
}  // namespace trireme::record
