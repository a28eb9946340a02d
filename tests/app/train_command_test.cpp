// `trireme train` end to end: real processes, real files.
// SPDX-License-Identifier: Apache-2.0
#include "small_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace trireme {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string kTrireme = TRIREME_BINARY;

nlohmann::json summary_of(const TemporaryFolder& folder) {
  return nlohmann::json::parse(text_of(small_run(folder) / "summary.json"));
}

TEST(TrainCommand, FillsTheRunFolder) {
  const TemporaryFolder folder;

  const CommandResult run = run_command(kTrireme + " train " + small_job(folder));

  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_EQ(run.errors, "");
  const nlohmann::json summary = summary_of(folder);
  EXPECT_EQ(summary["format"], "trireme-summary/1");
  EXPECT_EQ(summary["steps"], 3);
  EXPECT_THAT(run.out,
              HasSubstr("parameters digest: " + summary["parameters_digest"].get<std::string>()));
  std::istringstream metrics(text_of(small_run(folder) / "metrics.jsonl"));
  int steps = 0;
  for (std::string line; std::getline(metrics, line);)
    steps += nlohmann::json::parse(line).contains("train_loss") ? 1 : 0;
  EXPECT_EQ(steps, 3);
  EXPECT_TRUE(std::filesystem::exists(small_run(folder) / "plan.json"));
}

TEST(TrainCommand, ASavedJobGivesTheSameRun) {
  const TemporaryFolder folder;
  run_command(kTrireme + " train " + small_job(folder) + " --set train.seed=7");
  const std::string digest = summary_of(folder)["parameters_digest"];
  std::filesystem::copy_file(small_run(folder) / "job.yaml", folder.path() / "again.yaml");

  const CommandResult run =
      run_command(kTrireme + " train " + (folder.path() / "again.yaml").string());

  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_EQ(summary_of(folder)["parameters_digest"], digest);
}

/// Both plans rest on costs that were measured on one machine.
TEST(TrainCommand, AFasterRankGetsMoreOfTheLayersAndTheBitsStay) {
  const TemporaryFolder folder;
  const std::string train = kTrireme + " train " + small_job(folder) +
                            " --set model.blocks=12 --set plan.solver=keep_all "
                            "--set pipeline.stages=2 --set pipeline.speeds=";
  std::vector<int> layers;
  std::vector<std::string> digests;
  for (const char* const speeds : {"[1,0.2]", "[0.1,0.5]"}) {
    const CommandResult run = run_command(train + speeds);
    ASSERT_EQ(run.exit_code, 0) << run.errors;
    const nlohmann::json stages =
        nlohmann::json::parse(text_of(small_run(folder) / "plan.json"))["stages"];
    layers.push_back(stages[0]["layers"][1]);
    digests.push_back(summary_of(folder)["parameters_digest"]);
  }

  EXPECT_GT(layers[0], layers[1] + 4);
  EXPECT_EQ(digests[0], digests[1]);
}

TEST(TrainCommand, KeepsAnEarlierRun) {
  const TemporaryFolder folder;
  const std::string job = small_job(folder);
  run_command(kTrireme + " train " + job);
  const std::string first = text_of(small_run(folder) / "summary.json");

  run_command(kTrireme + " train " + job);

  EXPECT_EQ(text_of(folder.path() / "runs" / "small.1" / "summary.json"), first);
}

TEST(TrainCommand, LeavesAFolderAloneThatIsNoRuns) {
  const TemporaryFolder folder;
  const std::string job = small_job(folder);
  for (const std::string file : {"job.yaml", "chain.yaml"}) {
    const std::filesystem::path mine = folder.path() / ("with-" + file);
    std::filesystem::create_directories(mine);
    folder.file("with-" + file + "/" + file, "my own");

    const CommandResult run =
        run_command(kTrireme + " train " + job + " --set report.directory=" + (mine / "").string());

    EXPECT_EQ(run.exit_code, 2);
    EXPECT_THAT(run.errors, HasSubstr("has a " + file + ", but is no earlier run's folder"));
    EXPECT_EQ(text_of(mine / file), "my own");
  }
}

TEST(TrainCommand, TakesNoFolderThatTheUserIsIn) {
  const TemporaryFolder folder;
  const std::string job = small_job(folder);
  const std::filesystem::path working = folder.path() / "in";
  std::filesystem::create_directories(working);
  for (const std::string directory : {".", ".."}) {
    const CommandResult run = run_command("cd '" + working.string() + "' && " + kTrireme +
                                          " train " + job + " --set report.directory=" + directory);

    EXPECT_EQ(run.exit_code, 2);
    EXPECT_THAT(run.errors, HasSubstr("holds the working folder"));
  }
}

TEST(TrainCommand, SaysBeforeItPlansThatItsFolderCannotBeMade) {
  const TemporaryFolder folder;
  const std::string in_the_way = folder.file("file", "a file");
  std::filesystem::create_symlink(folder.path() / "nothing", folder.path() / "link");
  for (const std::string& directory :
       {in_the_way, in_the_way + "/run", (folder.path() / "link").string()}) {
    const CommandResult run =
        run_command(kTrireme + " train " + small_job(folder) +
                    " --set memory.device_budget=40MiB --set report.directory=" + directory);

    EXPECT_EQ(run.exit_code, 2);
    EXPECT_THAT(run.errors, HasSubstr("report.directory: " + directory + " cannot be made"));
    EXPECT_THAT(run.out, Not(HasSubstr("profile")));
  }
  EXPECT_EQ(text_of(in_the_way), "a file");
}

TEST(TrainCommand, KeepsTheEarlierRunOfTheFolderThatALinkNames) {
  const TemporaryFolder folder;
  const std::filesystem::path there = folder.path() / "there", link = folder.path() / "link";
  std::filesystem::create_directories(there);
  std::filesystem::create_symlink(there, link);
  const std::string train =
      kTrireme + " train " + small_job(folder) + " --set report.directory=" + link.string();
  run_command(train);

  const CommandResult again = run_command(train);

  EXPECT_EQ(again.exit_code, 0) << again.errors;
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_TRUE(std::filesystem::exists(there / "summary.json"));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "there.1" / "summary.json"));
}

TEST(TrainCommand, SaysBeforeItTrainsThatATraceCannotBeWritten) {
  const TemporaryFolder folder;
  const std::string job = small_job(folder);

  const CommandResult run = run_command(kTrireme + " train " + job + " --trace " + job + "/trace");

  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.errors, HasSubstr("/trace"));
  EXPECT_FALSE(std::filesystem::exists(small_run(folder)));
}

TEST(TrainCommand, TakesAFolderWithASlashAtItsEndAgain) {
  const TemporaryFolder folder;
  const std::string train = kTrireme + " train " + small_job(folder) +
                            " --set report.directory=" + (folder.path() / "here/").string();
  run_command(train);

  const CommandResult again = run_command(train);

  EXPECT_EQ(again.exit_code, 0) << again.errors;
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "here.1" / "summary.json"));
}

TEST(TrainCommand, DoesNotEnterAFolderThatARunIsIn) {
  const TemporaryFolder folder;
  const std::string train = kTrireme + " train " + small_job(folder);
  const std::string started = (small_run(folder) / "metrics.jsonl").string();

  const CommandResult second = run_command(
      train + " --set train.steps=1000000 >/dev/null 2>&1 & pid=$!; for i in $(seq 600); do [ -s " +
      started + " ] && break; sleep 0.05; done; " + train +
      "; code=$?; kill -INT $pid; wait $pid; exit $code");

  EXPECT_EQ(second.exit_code, 2);
  EXPECT_THAT(second.errors, HasSubstr("another run is in"));
}

TEST(TrainCommand, TakesSettingsBeforeTheJobsFile) {
  const TemporaryFolder folder;

  const CommandResult run =
      run_command(kTrireme + " train --set train.steps=2 " + small_job(folder) + " --json");

  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_EQ(nlohmann::json::parse(run.out)["steps"], 2);
}

TEST(TrainCommand, PrintsOneJsonDocumentOnRequest) {
  const TemporaryFolder folder;

  const CommandResult run = run_command(kTrireme + " train --json " + small_job(folder));

  EXPECT_EQ(nlohmann::json::parse(run.out)["steps"], 3);
}

struct BadJob {
  const char* name;
  const char* settings;  ///< after the job's file
  const char* message;   ///< part of what is printed
};

class BadInput : public testing::TestWithParam<BadJob> {};

TEST_P(BadInput, IsSaidWithPlaceAndRemedy) {
  const TemporaryFolder folder;
  const std::string job = small_job(folder);

  const CommandResult run = run_command(kTrireme + " train " + job + " " + GetParam().settings);

  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.errors, HasSubstr(GetParam().message));
  EXPECT_FALSE(std::filesystem::exists(small_run(folder)));
}

INSTANTIATE_TEST_SUITE_P(
    Jobs, BadInput,
    testing::Values(
        BadJob{"UnknownKey", "--set train.stepz=3", "did you mean 'steps'?"},
        BadJob{"WrongType", "--set train.steps=many", "--set train.steps"},
        BadJob{"OutOfRange", "--set model.dropout=1.5", "--set model.dropout"},
        BadJob{"NotAMultiple", "--set train.micro_batch=3", "must be a multiple of"},
        BadJob{"NoSuchFile",
               "--set model.vocabulary=256 --set data.kind=text --set data.files=[/no/such/*.txt]",
               "/no/such/*.txt"},
        BadJob{"TooManyStages", "--set pipeline.stages=9",
               "pipeline.stages is 9, but the model has 6 layers"},
        BadJob{"FarTooManyStages", "--set pipeline.stages=60000", "but the model has 6 layers"},
        BadJob{"CutPastTheEnd", "--set pipeline.stages=2 --set pipeline.cut=[6]",
               "cuts after layer 6"},
        BadJob{"NoSuchPlan", "--set plan.file=/no/such/plan.json",
               "--set plan.file is /no/such/plan.json, which does not exist"},
        BadJob{"NoSuchSolver", "--set plan.solver=rotr", "did you mean 'rotor'?"}),
    [](const auto& test) { return test.param.name; });

// A batch system's TMPDIR may be on another machine.
TEST(TrainCommand, NeedsAFolderForTemporaryFilesOnlyForAnOffloadTierOnDisk) {
  const TemporaryFolder folder;
  const std::string train = "TMPDIR=/no/such/folder " + kTrireme + " train " + small_job(folder);
  const CommandResult without = run_command(train),
                      with = run_command(train + " --set memory.disk_budget=1MiB");

  EXPECT_EQ(without.exit_code, 0) << without.errors;
  EXPECT_EQ(with.exit_code, 2);
  EXPECT_THAT(with.errors, HasSubstr("memory.disk_path is not given, and the folder for temporary "
                                     "files (TMPDIR) cannot be used"));
}

TEST(TrainCommand, SaysWhatIsMissingForCuda) {
  if (std::filesystem::exists("/dev/nvidiactl")) GTEST_SKIP() << "this machine has a GPU";
  const TemporaryFolder folder;

  const CommandResult run =
      run_command(kTrireme + " train " + small_job(folder) + " --set device=cuda");

  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.errors, testing::AllOf(HasSubstr("CUDA"), HasSubstr("device: cpu")));
  EXPECT_FALSE(std::filesystem::exists(small_run(folder)));
}

// srun without --mpi=pmix: every process would do the whole job, all in one folder.
TEST(TrainCommand, IsNotDoneByEachOfManyProcessesThatDoNotKnowTheOthers) {
  const TemporaryFolder folder;
  const std::string train = kTrireme + " train " + small_job(folder);
  const CommandResult first = run_command("SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0 " + train),
                      second = run_command("SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=1 " + train),
                      alone = run_command("SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0 " + train),
                      own = run_command("SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=1 " + train +
                                        " --set pipeline.transport=local");

  EXPECT_EQ(first.exit_code, 2);
  EXPECT_THAT(first.errors, HasSubstr("srun started 4 processes that are not connected"));
  EXPECT_THAT(first.errors, HasSubstr("srun --mpi=pmix"));
  EXPECT_EQ(second.exit_code, 2);
  EXPECT_EQ(second.errors, "");
  EXPECT_EQ(alone.exit_code, 0) << alone.errors;
  EXPECT_EQ(own.exit_code, 0) << own.errors;
}

// A launcher's environment is enough: nothing is asked of MPI before it is loaded.
TEST(TrainCommand, SaysOncePerMachineWhatIsMissingForRanksThatAreProcesses) {
  const TemporaryFolder folder, elsewhere;
  for (const char* const name : {"trireme", "trireme-runtime"})
    std::filesystem::copy(std::filesystem::path(kTrireme).parent_path() / name, elsewhere.path());
  const std::string train = (elsewhere.path() / "trireme train ").string();
  const std::string rank0 = "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 " + train,
                    rank1 = "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 " + train;
  const CommandResult first = run_command(rank0 + small_job(folder)),
                      second = run_command(rank1 + small_job(folder)),
                      wrong_job = run_command(rank0 + (folder.path() / "none.yaml").string()),
                      alone = run_command(train + small_job(folder));

  EXPECT_EQ(first.exit_code, 2);
  EXPECT_THAT(first.errors, testing::AllOf(HasSubstr("libtrireme_mpi.so is missing"),
                                           HasSubstr("Debian: openmpi-bin, libopenmpi-dev")));
  EXPECT_EQ(second.exit_code, 2);
  EXPECT_EQ(second.errors, "");
  EXPECT_EQ(wrong_job.exit_code, 2);
  EXPECT_THAT(wrong_job.errors,
              testing::AllOf(HasSubstr("none.yaml"), testing::Not(HasSubstr("libtrireme_mpi.so"))));
  EXPECT_EQ(alone.exit_code, 0) << alone.errors;
}

#ifdef TRIREME_MPIRUN
// An MPI that does not know its launcher takes each process for a whole job.
TEST(TrainCommand, IsNotDoneByEachOfManyProcessesOfAnotherMpisLauncher) {
  const TemporaryFolder folder;
  const CommandResult run = run_command("OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 " +
                                        kTrireme + " train " + small_job(folder));
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.errors,
              testing::AllOf(HasSubstr("the launcher started 2 processes, but libtrireme_mpi.so "
                                       "finds 1 of them: it was built with "),
                             HasSubstr("-DMPI_CXX_COMPILER=")));
}
#endif

TEST(TrainCommand, StopsCleanlyOnCtrlC) {
  const TemporaryFolder folder;
  const std::string job = small_job(folder);
  const std::string started = (small_run(folder) / "metrics.jsonl").string();

  const CommandResult run =
      run_command(kTrireme + " train " + job +
                  " --set train.steps=1000000 --set pipeline.stages=2 & pid=$!; "
                  "for i in $(seq 600); do [ -s " +
                  started + " ] && break; sleep 0.05; done; kill -INT $pid; wait $pid");

  EXPECT_EQ(run.exit_code, 130) << run.errors;
  EXPECT_THAT(run.errors, HasSubstr("stopped on request"));
}

}  // namespace
}  // namespace trireme
