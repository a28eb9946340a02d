// SPDX-License-Identifier: Apache-2.0
#include "trireme/record/metrics.h"

#include "support/input_error.h"
#include "support/temporary_folder.h"

#include "trireme/io/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>

#include <bit>
#include <csignal>
#include <limits>
#include <numbers>
#include <random>

namespace trireme::record {
namespace {

using support::input_error;
using support::TemporaryFolder;

TEST(LineOf, HasEveryFactOfAStepUnderTheNamesOfTheFormat) {
  const TemporaryFolder folder;
  MetricsFile metrics(folder / "m.jsonl", 0);
  StepMetrics step{.step = 12,
                   .loss = 2.5,
                   .learning_rate = 0.001,
                   .gradient_norm = 0.75,
                   .time = Seconds(0.5),
                   .tokens = 1024};

  metrics.append(line_of(step));
  step.gradient_norm.reset();  // nothing was clipped
  metrics.append(line_of(step));
  metrics.append(validation_line(12, 2.25));

  EXPECT_EQ(io::read_file(folder / "m.jsonl"),
            "{\"step\":12,\"train_loss\":2.5,\"learning_rate\":0.001,\"step_s\":0.5,"
            "\"tokens_per_s\":2048.0,\"gradient_norm\":0.75}\n"
            "{\"step\":12,\"train_loss\":2.5,\"learning_rate\":0.001,\"step_s\":0.5,"
            "\"tokens_per_s\":2048.0}\n"
            "{\"step\":12,\"validation_loss\":2.25}\n");
}

TEST(MetricsFile, WritesOneObjectPerLineInTheGivenOrder) {
  const TemporaryFolder folder;
  MetricsFile metrics(folder / "new/metrics.jsonl", 0);

  metrics.append({.step = 0, .values = {{"train_loss", 5.5}, {"learning_rate", 0.001}}});
  metrics.append({.step = 1, .values = {{"train_loss", 4.25}}});

  EXPECT_EQ(io::read_file(folder / "new/metrics.jsonl"),
            "{\"step\":0,\"train_loss\":5.5,\"learning_rate\":0.001}\n"
            "{\"step\":1,\"train_loss\":4.25}\n");
}

TEST(MetricsFile, DoublesReadBackBitForBit) {
  const TemporaryFolder folder;
  std::vector<double> values = {0.1,
                                -0.0,
                                1.0 / 3,
                                5e-324,
                                std::numeric_limits<double>::max(),
                                static_cast<double>(0.1F),
                                std::numbers::pi};
  std::mt19937_64 random(7);
  while (values.size() < 2000) {
    const auto value = std::bit_cast<double>(random());
    if (std::isfinite(value)) values.push_back(value);
  }
  MetricsFile metrics(folder / "m.jsonl", 0);
  MetricsLine line;
  for (const double value : values)
    line.values.push_back({std::to_string(line.values.size()), value});

  metrics.append(line);

  const auto read = nlohmann::json::parse(io::read_file(folder / "m.jsonl"));
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(std::bit_cast<std::uint64_t>(read[std::to_string(i)].get<double>()),
              std::bit_cast<std::uint64_t>(values[i]));
}

TEST(MetricsFile, StaysJsonWhenALossIsNotANumber) {
  const TemporaryFolder folder;
  MetricsFile metrics(folder / "m.jsonl", 0);

  metrics.append({.step = 3, .values = {{"train_loss", std::numeric_limits<double>::quiet_NaN()}}});

  EXPECT_EQ(io::read_file(folder / "m.jsonl"), "{\"step\":3,\"train_loss\":null}\n");
}

TEST(ReadMetrics, GivesWhatWasAppended) {
  const TemporaryFolder folder;
  MetricsFile metrics(folder / "m.jsonl", 0);
  const MetricsLine first{.step = 1, .values = {{"train_loss", 5.5}, {"learning_rate", 0.1}}};
  metrics.append(first);
  metrics.append({.step = 2, .values = {{"train_loss", std::nan("")}}});

  const std::vector<MetricsLine> read = read_metrics(folder / "m.jsonl");

  ASSERT_EQ(read.size(), 2U);
  EXPECT_EQ(read[0], first);
  EXPECT_EQ(read[1].step, 2);
  EXPECT_TRUE(std::isnan(read[1].values.at(0).value));
}

TEST(ReadMetrics, LeavesOutALineThatWasCutShort) {
  const TemporaryFolder folder;
  io::write_file(folder / "m.jsonl", "{\"step\":8,\"a\":1}\n{\"step\":9,\"a\"");

  EXPECT_EQ(read_metrics(folder / "m.jsonl").size(), 1U);
}

TEST(MetricsFile, ResumedDropsTheStepsThatComeAgain) {
  const TemporaryFolder folder;
  const auto file = folder / "m.jsonl";
  io::write_file(file,
                 "{\"step\":8,\"a\":1}\n{\"step\":9,\"a\":2}\n{\"step\":10,\"a\":3}\n"
                 "{\"step\":11,\"a\":4}\n{\"step\":1");  // killed here

  MetricsFile metrics(file, 10);
  metrics.append({.step = 10, .values = {{"a", 30}}});

  EXPECT_EQ(io::read_file(file),
            "{\"step\":8,\"a\":1}\n{\"step\":9,\"a\":2}\n{\"step\":10,\"a\":30.0}\n");
}

TEST(MetricsFile, FirstStepZeroStartsAnew) {
  const TemporaryFolder folder;
  io::write_file(folder / "m.jsonl", "{\"step\":0}\nnot json\n");

  const MetricsFile metrics(folder / "m.jsonl", 0);

  EXPECT_EQ(io::read_file(folder / "m.jsonl"), "");
}

TEST(MetricsFile, ResumesWhereThereWasNone) {
  const TemporaryFolder folder;

  const MetricsFile metrics(folder / "m.jsonl", 5);

  EXPECT_EQ(io::read_file(folder / "m.jsonl"), "");
}

TEST(MetricsFile, RefusesToContinueWhatIsNotItsOwn) {
  const TemporaryFolder folder;
  io::write_file(folder / "m.jsonl", "{\"step\":0}\n{\"stage\":1}\n{\"step\":1}\n");

  const std::string message =
      input_error([&] { const MetricsFile metrics(folder / "m.jsonl", 2); });

  EXPECT_THAT(message, testing::StartsWith((folder / "m.jsonl").string() + ":2: "));
  EXPECT_THAT(io::read_file(folder / "m.jsonl"), testing::HasSubstr("stage"));  // left as it was
}

/// Files may not grow, as on a disk that is full.
class NoRoom {
 public:
  NoRoom() : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit none{.rlim_cur = 0, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &none);
  }
  ~NoRoom() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit before_{};
};

TEST(MetricsFile, SaysWhichFileTheDiskHasNoRoomFor) {
  const TemporaryFolder folder;
  MetricsFile metrics(folder / "m.jsonl", 0);
  const NoRoom from_here_on;

  try {
    metrics.append({.step = 1, .values = {{"train_loss", 2}}});
    FAIL() << "written to a full disk";
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), (folder / "m.jsonl").string() + ": cannot be written: File too large");
  }
}

TEST(MetricsFile, IsWrittenInTheLinksPlaceNotThroughIt) {
  const TemporaryFolder folder;
  const std::string earlier = "{\"step\":1}\n";
  io::write_file(folder / "of-the-user", earlier);
  std::filesystem::create_symlink(folder / "of-the-user", folder / "m.jsonl");

  MetricsFile metrics(folder / "m.jsonl", 2);
  metrics.append({.step = 2, .values = {}});

  EXPECT_EQ(io::read_file(folder / "of-the-user"), earlier);
  EXPECT_EQ(io::read_file(folder / "m.jsonl"), earlier + "{\"step\":2}\n");
}

TEST(MetricsFile, NoticesThatItWasRemovedRenamedOrReplaced) {
  const TemporaryFolder folder;
  MetricsFile metrics(folder / "run/m.jsonl", 0);
  EXPECT_TRUE(metrics.is_there());
  std::filesystem::rename(folder / "run", folder / "other");
  EXPECT_FALSE(metrics.is_there());
  io::write_file(folder / "run/m.jsonl", "");
  EXPECT_FALSE(metrics.is_there());
}

}  // namespace
}  // namespace trireme::record
