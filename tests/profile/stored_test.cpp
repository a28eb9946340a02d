// SPDX-License-Identifier: Apache-2.0
#include "trireme/profile/stored.h"

#include "small_jobs.h"
#include "support/command.h"

#include "trireme/chain/chain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace trireme::profile {
namespace {

config::JobSpec small() {
  return job_of(config::MlpSpec{.inputs = 4, .widths = {6}, .classes = 2}, 2);
}

Stored stored(const TemporaryFolder& folder, Reuse reuse = Reuse::kAllowed) {
  const config::JobSpec job = small();
  return load_or_measure(model::make_model(job.model), job, quick(), folder.path() / "profiles",
                         reuse);
}

TEST(StoredProfile, IsUsedAgain) {
  const TemporaryFolder folder;

  const Stored first = stored(folder), second = stored(folder);

  EXPECT_FALSE(first.was_there);
  EXPECT_TRUE(second.was_there);
  EXPECT_EQ(second.chain, first.chain);
  EXPECT_EQ(second.file, first.file);
  EXPECT_EQ(chain::load_chain(first.file), first.chain);
}

TEST(StoredProfile, IsReplacedOnRequest) {
  const TemporaryFolder folder;
  const Stored first = stored(folder);

  const Stored second = stored(folder, Reuse::kForbidden);

  EXPECT_FALSE(second.was_there);
  EXPECT_EQ(second.file, first.file);
  EXPECT_EQ(chain::load_chain(first.file), second.chain);
}

TEST(StoredProfile, ThatIsDamagedIsMeasuredAgain) {
  const TemporaryFolder folder;
  const Stored first = stored(folder);
  std::ofstream(first.file) << "format: trireme-chain/1\nname: half a fi";

  const Stored second = stored(folder);

  EXPECT_FALSE(second.was_there);
  EXPECT_EQ(chain::load_chain(first.file), second.chain);
}

TEST(Dependencies, AreWhateverChangesTheCosts) {
  const std::string base = dependencies(small(), machine(1));
  const auto with = [](auto change) {
    config::JobSpec job = small();
    change(job);
    return dependencies(job, machine(1));
  };

  EXPECT_NE(dependencies(small(), machine(2)), base);
  EXPECT_NE(with([](auto& job) { job.train.micro_batch = 1; }), base);
  EXPECT_NE(with([](auto& job) { job.train.precision = "bfloat16"; }), base);
  EXPECT_NE(with([](auto& job) { job.train.optimizer.kind = "sgd"; }), base);
  EXPECT_NE(with([](auto& job) { job.train.clip_norm = job.train.clip_norm > 0 ? 0 : 1; }), base);
  EXPECT_NE(with([](auto& job) { job.model = config::MlpSpec{.inputs = 5, .widths = {6}}; }), base);
  EXPECT_NE(with([](auto& job) { job.model = config::GptSpec{}; }), base);
}

TEST(Dependencies, NameDeterministicKernelsWhereThereAreOthers) {
  config::JobSpec job = small();
  const std::string on_cpu = dependencies(job, machine(1));
  job.device = "cuda";
  const std::string on_cuda = dependencies(job, "GPU");
  job.train.deterministic = true;

  EXPECT_NE(dependencies(job, "GPU"), on_cuda);
  job.device = "cpu";
  EXPECT_EQ(dependencies(job, machine(1)), on_cpu);
}

TEST(Dependencies, NameWhoseKernelsAGpuTakes) {
  config::JobSpec job = small();
  job.device = "cuda";
  const std::string own = dependencies(job, "GPU");
  ::setenv("TRIREME_OWN_KERNELS", "0", 1);  // NOLINT(concurrency-mt-unsafe)
  const std::string libtorchs = dependencies(job, "GPU");
  ::unsetenv("TRIREME_OWN_KERNELS");  // NOLINT(concurrency-mt-unsafe)

  EXPECT_THAT(libtorchs, testing::HasSubstr("\nTRIREME_OWN_KERNELS: 0\n"));
  EXPECT_NE(libtorchs, own);
}

TEST(Dependencies, DoNotNameWhatCostsNothing) {
  const std::string base = dependencies(small(), machine(1));
  config::JobSpec job = small();
  job.name = "other";
  job.weights = "elsewhere";
  job.train.steps = 7;
  job.train.batch = 64;
  job.train.seed = 9;
  job.train.optimizer.learning_rate = 1;
  job.pipeline.stages = 2;
  job.report.directory = "elsewhere";

  EXPECT_EQ(dependencies(job, machine(1)), base);
}

TEST(Dependencies, OfSgdSayWhetherItHasMomentum) {
  config::JobSpec with = small(), without = small();
  with.train.optimizer = {.kind = "sgd", .momentum = 0.9};
  without.train.optimizer = {.kind = "sgd", .momentum = 0};

  EXPECT_NE(dependencies(with, "CPU"), dependencies(without, "CPU"));
}

}  // namespace
}  // namespace trireme::profile
