// SPDX-License-Identifier: Apache-2.0
#include "trireme/profile/stored.h"

#include "small_jobs.h"
#include "support/command.h"

#include "trireme/chain/chain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

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

TEST(StoredProfile, IsNotUsedForOtherCode) {
  const TemporaryFolder folder;
  const config::JobSpec job = small();
  model::ChainModel model = model::make_model(job.model);
  const auto profiled = [&](const std::string& code) {
    model.code = code;
    return load_or_measure(model, job, quick(), folder.path(), Reuse::kAllowed);
  };

  profiled("one");

  EXPECT_TRUE(profiled("one").was_there);
  EXPECT_FALSE(profiled("other").was_there);
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
  const std::string base = dependencies(small(), "", machine(1));
  const auto with = [](auto change) {
    config::JobSpec job = small();
    change(job);
    return dependencies(job, "", machine(1));
  };

  EXPECT_NE(dependencies(small(), "", machine(2)), base);
  EXPECT_NE(dependencies(small(), "other code", machine(1)), base);
  EXPECT_NE(with([](auto& job) { job.train.micro_batch = 1; }), base);
  EXPECT_NE(with([](auto& job) { job.train.precision = "bfloat16"; }), base);
  EXPECT_NE(with([](auto& job) { job.train.optimizer.kind = "sgd"; }), base);
  EXPECT_NE(with([](auto& job) { job.train.clip_norm = job.train.clip_norm > 0 ? 0 : 1; }), base);
  EXPECT_NE(with([](auto& job) { job.model = config::MlpSpec{.inputs = 5, .widths = {6}}; }), base);
  EXPECT_NE(with([](auto& job) { job.model = config::GptSpec{}; }), base);
}

TEST(Dependencies, NameDeterministicKernelsWhereThereAreOthers) {
  config::JobSpec job = small();
  const std::string on_cpu = dependencies(job, "", machine(1));
  job.device = "cuda";
  const std::string on_cuda = dependencies(job, "", "GPU");
  job.train.deterministic = true;

  EXPECT_NE(dependencies(job, "", "GPU"), on_cuda);
  job.device = "cpu";
  EXPECT_EQ(dependencies(job, "", machine(1)), on_cpu);
}

TEST(Dependencies, NameWhoseKernelsAGpuTakes) {
  config::JobSpec job = small();
  job.device = "cuda";
  const std::string own = dependencies(job, "", "GPU");
  ::setenv("TRIREME_OWN_KERNELS", "0", 1);  // NOLINT(concurrency-mt-unsafe)
  const std::string libtorchs = dependencies(job, "", "GPU");
  ::unsetenv("TRIREME_OWN_KERNELS");  // NOLINT(concurrency-mt-unsafe)

  EXPECT_THAT(libtorchs, testing::HasSubstr("\nTRIREME_OWN_KERNELS: 0\n"));
  EXPECT_NE(libtorchs, own);
}

TEST(Dependencies, DoNotNameWhatCostsNothing) {
  const std::string base = dependencies(small(), "", machine(1));
  config::JobSpec job = small();
  job.name = "other";
  job.weights = "elsewhere";
  job.train.steps = 7;
  job.train.batch = 64;
  job.train.seed = 9;
  job.train.optimizer.learning_rate = 1;
  job.pipeline.stages = 2;
  job.report.directory = "elsewhere";

  EXPECT_EQ(dependencies(job, "", machine(1)), base);
}

TEST(Dependencies, OfSgdSayWhetherItHasMomentum) {
  config::JobSpec with = small(), without = small();
  with.train.optimizer = {.kind = "sgd", .momentum = 0.9};
  without.train.optimizer = {.kind = "sgd", .momentum = 0};

  EXPECT_NE(dependencies(with, "", "CPU"), dependencies(without, "", "CPU"));
}

/// Stored costs that were edited, and the error of reading them.
class Foreign : public testing::Test {
 protected:
  Foreign() : first_(stored(folder_)), text_(text_of(first_.file)) {}

  void put(const std::string& text) const { std::ofstream(first_.file) << text; }
  void expect_measured_again() const {
    const Stored second = stored(folder_);
    EXPECT_FALSE(second.was_there);
    EXPECT_THAT(second.refused, testing::HasSubstr(first_.file.string()));
    EXPECT_EQ(chain::load_chain(first_.file), second.chain);
    EXPECT_TRUE(stored(folder_).was_there);
  }

  TemporaryFolder folder_;
  const Stored first_;
  const std::string text_;
};

TEST_F(Foreign, CostsOfAnotherModelAreMeasuredAgain) {
  const config::JobSpec larger =
      job_of(config::MlpSpec{.inputs = 4, .widths = {6, 6}, .classes = 2}, 2);
  put(text_of(load_or_measure(model::make_model(larger.model), larger, quick(),
                              folder_.path() / "profiles", Reuse::kAllowed)
                  .file));
  expect_measured_again();
}

TEST_F(Foreign, AChainThatIsNotOursIsMeasuredAgain) {
  put("format: trireme-chain/1\nname: x\ninput_bytes: 1\nlayers:\n"
      "  - {name: a, forward_s: 1e-3, backward_s: 1e-3, output_bytes: 4, tape_bytes: 8}\n");
  expect_measured_again();
}

// A valid chain except for one number: only the digest shows the change.
TEST_F(Foreign, ANumberThatWasChangedIsMeasuredAgain) {
  std::string changed = text_;
  const std::size_t at = changed.rfind("output_bytes: ") + std::string("output_bytes: ").size();
  changed.insert(at, "1");
  put(changed);
  expect_measured_again();
}

// If nothing is measured, only the notes say what was found about a layer.
TEST_F(Foreign, NotesAreToldAgainUntilOneWasChanged) {
  const config::JobSpec job = small();
  const std::vector<std::string> notes{"layer 1 (a) varies", "layer 2 (b) gives what it changes"};
  store(first_.chain, notes, dependencies(job, "", machine(1)), folder_.path() / "profiles");
  std::vector<std::string> told;
  MeasureOptions options = quick();
  options.note = [&](const std::string& each) { told.push_back(each); };
  const Stored again = load_or_measure(model::make_model(job.model), job, options,
                                       folder_.path() / "profiles", Reuse::kAllowed);
  EXPECT_TRUE(again.was_there);
  EXPECT_EQ(told, notes);
  EXPECT_EQ(chain::load_chain(first_.file), first_.chain);

  std::string changed = text_of(first_.file);
  put(changed.replace(changed.find("layer 2"), 7, "layer 3"));
  expect_measured_again();
}

TEST_F(Foreign, LayersOfOtherNamesAreMeasuredAgainEvenWithTheirOwnDigest) {
  chain::Chain renamed = first_.chain;
  renamed.layers.front().name += "x";
  const config::JobSpec job = small();
  store(renamed, {}, dependencies(job, "", machine(1)), folder_.path() / "profiles");
  expect_measured_again();
}

TEST_F(Foreign, WhatIsNoFileIsReplaced) {
  std::filesystem::remove(first_.file);
  ASSERT_EQ(::mkfifo(first_.file.c_str(), 0600), 0);
  expect_measured_again();
}

TEST_F(Foreign, ALinkIsReplacedAndWhatItNamesStays) {
  const std::string user = folder_.file("of-the-user", "precious");
  std::filesystem::remove(first_.file);
  std::filesystem::create_symlink(user, first_.file);
  expect_measured_again();
  EXPECT_EQ(text_of(user), "precious");
}

}  // namespace
}  // namespace trireme::profile
