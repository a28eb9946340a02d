// Jobs of several ranks that a person, a batch system or a fault ends: they end with one exit code,
// whichever rank notices what first.
// SPDX-License-Identifier: Apache-2.0
#include "small_job.h"

#include "trireme/core/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <utility>

namespace trireme {
namespace {

using testing::HasSubstr;

const std::string kTrireme = TRIREME_BINARY;

class StoppedJob : public testing::Test {
 protected:
  /// Starts `command`, sends `signal` to `whom` once it has printed that many lines, and waits for
  /// its end. The shell knows the command's process as $pid, and a rank of mpirun's as $(rank N).
  CommandResult stopped(const std::string& command, int lines, const std::string& signal,
                        const std::string& whom = "$pid") {
    const std::string pipe = (folder_.path() / "lines").string();
    return run_command(
        "rank() { for p in $(cat /proc/$pid/task/*/children); do tr '\\0' '\\n' </proc/$p/environ "
        "| "
        "grep -qx OMPI_COMM_WORLD_RANK=$1 && echo $p; done; }; mkfifo " +
        pipe + "; (" + command + ") >" + pipe + " & pid=$!; { for i in $(seq " +
        std::to_string(lines) + "); do read -r line; done; kill -" + signal + " " + whom +
        "; cat >/dev/null; } <" + pipe + "; wait $pid; status=$?; rm " + pipe + "; exit $status");
  }
  std::string train(const std::string& settings) const {
    return kTrireme + " train " + job_ + " --set train.steps=1000000 " + settings;
  }

  TemporaryFolder folder_;
  std::string job_ = small_job(folder_, "checkpoint: {every: 2, resume: never}\n");
};

TEST_F(StoppedJob, OfThreadsEndsAsStoppedAtWhateverMoment) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 6; ++trial) {
    const std::string settings =
        concat("--set report.log_every=1 --set pipeline.stages=", 2 + random() % 3,
               " --set checkpoint.background=", random() % 2 == 0 ? "true" : "false");
    const int lines = 2 + static_cast<int>(random() % 40);
    const std::string signal = std::array{"INT", "TERM", "HUP"}[trial % 3];

    // The process that runs the tests may ignore SIGHUP, as nohup does.
    const CommandResult run =
        stopped("exec env --default-signal=HUP " + train(settings), lines, signal);

    EXPECT_EQ(run.exit_code, 130) << settings << " after " << lines << ": " << run.errors;
    EXPECT_THAT(run.errors, HasSubstr("stopped on request"));
  }
}

TEST_F(StoppedJob, IsOneFromTheFirstMomentOn) {
  for (const std::string signal : {"INT", "TERM"}) {
    const CommandResult run = run_command(
        train("--set pipeline.stages=2") + " & pid=$!; for i in $(seq 30000); do " +
        "case $(readlink /proc/$pid/exe) in *trireme-runtime) break;; esac; done; kill -" + signal +
        " $pid; wait $pid");

    EXPECT_EQ(run.exit_code, 130) << run.errors;
    EXPECT_THAT(run.errors, HasSubstr("stopped on request"));
  }
}

// Planning 8 stages with 96 blocks takes a minute and checks no flag.
TEST_F(StoppedJob, ThatPlansEndsAtOnceAndGivesItsFolderBack) {
  // Waits for the line that announces planning: the second run finds the layers measured.
  for (const auto& [signal, line] : {std::pair{"INT", 3}, {"TERM", 2}}) {
    const CommandResult run =
        stopped("exec " + train("--set model.blocks=96 --set pipeline.stages=8 --set "
                                "train.batch=64 --set memory.device_budget=2MiB --set "
                                "memory.tapes=full"),
                line, signal);

    EXPECT_EQ(run.exit_code, 130) << run.errors;
    EXPECT_THAT(run.errors, HasSubstr("stopped on request while a plan is made"));
    EXPECT_FALSE(std::filesystem::exists(small_run(folder_)));
    EXPECT_FALSE(std::filesystem::exists(small_run(folder_).parent_path() / ".small.lock"));
  }
}

#ifdef TRIREME_MPIRUN
const std::string kMpirun =
    "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 exec " TRIREME_MPIRUN
    " --oversubscribe -n ";

TEST_F(StoppedJob, OfMpirunEndsAsStoppedWhicheverRankIsTold) {
  for (const std::string whom : {"$(rank 0)", "$(rank 1)", "$(rank 2)"}) {
    const CommandResult run =
        stopped(kMpirun + "3 " + train("--set report.log_every=1"), 12, "TERM", whom);

    EXPECT_EQ(run.exit_code, 130) << whom << run.errors;
    EXPECT_THAT(run.errors, HasSubstr("stopped on request"));
  }
}

TEST_F(StoppedJob, ThatDoesNotFitEndsWithThreeOnEveryRank) {
  for (int trial = 0; trial < 3; ++trial) {
    const CommandResult run =
        run_command(kMpirun + "3 " + train("--set memory.device_budget=20KiB"));

    EXPECT_EQ(run.exit_code, 3) << run.errors;
    EXPECT_THAT(run.errors, HasSubstr("the smallest budget that works is"));
  }
}

// MPI_Init itself waits without end.
TEST_F(StoppedJob, OfWhichARankDoesNotStartEndsAndSaysSo) {
  const CommandResult run =
      run_command(kMpirun + "2 sh -c '[ $OMPI_COMM_WORLD_RANK = 1 ] && kill -STOP $$; exec " +
                  train("--set pipeline.timeout=10ms") + "'");

  EXPECT_EQ(run.exit_code, 1) << run.errors;
  EXPECT_THAT(run.errors, HasSubstr("rank 0: waited 10 s for the other ranks to start"));
}
#endif

}  // namespace
}  // namespace trireme
