// SPDX-License-Identifier: Apache-2.0
#include "trireme/checkpoint/store.h"

#include "support/temporary_folder.h"

#include "trireme/checkpoint/tensor_file.h"
#include "trireme/core/error.h"
#include "trireme/io/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::checkpoint {
namespace {

using support::TemporaryFolder;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::int64_t> steps_in(const Store& store) {
  std::vector<std::int64_t> steps;
  for (const Found& found : store.complete()) steps.push_back(found.step);
  return steps;
}

/// A checkpoint of one number, before it is published.
Manifest drafted(const Store& store, std::int64_t step) {
  store.begin(step);
  TensorFile out(store.draft(step) / "rank-0.safetensors",
                 {{.name = "n", .type = "I64", .sizes = {}, .size = Bytes(8)}});
  out.append(std::as_bytes(std::span(&step, 1)));
  Manifest manifest = out.finish();
  manifest.step = step;
  return manifest;
}

void save(const Store& store, std::int64_t step) {
  store.publish(drafted(store, step), "train: {}\n");
}

TEST(Store, HasNothingWithoutAFolder) {
  EXPECT_THAT(Store("/nowhere/at/all").complete(), IsEmpty());
}

TEST(Store, GivesBackWhatWasPublished) {
  const TemporaryFolder folder;
  const Store store(folder / "checkpoints");
  save(store, 9);
  save(store, 10);

  EXPECT_THAT(steps_in(store), ElementsAre(9, 10));  // by number, not by name
  const auto newest = store.complete().back().folder;
  EXPECT_EQ(load_manifest(newest).step, 10);
  EXPECT_EQ(io::read_file(job_file(newest)), "train: {}\n");
}

TEST(Store, ShowsNoDraftAndRemovesOldOnes) {
  const TemporaryFolder folder;
  const Store store(folder.path());
  save(store, 1);
  drafted(store, 2);  // and then a crash
  EXPECT_THAT(steps_in(store), ElementsAre(1));
  drafted(store, 3);
  EXPECT_FALSE(std::filesystem::exists(store.draft(2)));
  EXPECT_TRUE(std::filesystem::exists(store.draft(3)));
}

TEST(Store, KeepsTheNewest) {
  const TemporaryFolder folder;
  const Store store(folder.path());
  for (const int step : {5, 10, 15, 100}) save(store, step);
  store.keep(2);
  EXPECT_THAT(steps_in(store), ElementsAre(15, 100));
  store.keep(2);
  EXPECT_THAT(steps_in(store), ElementsAre(15, 100));
}

TEST(Store, TakesAStepAgain) {
  const TemporaryFolder folder;
  const Store store(folder.path());
  save(store, 5);
  save(store, 5);
  EXPECT_THAT(steps_in(store), ElementsAre(5));
}

TEST(Store, RefusesAManifestWhoseFilesAreElsewhere) {
  const TemporaryFolder folder;
  const Store store(folder.path());
  Manifest manifest = drafted(store, 5);
  manifest.tensors["of another rank"] = {.file = "rank-1.safetensors", .size = Bytes(8)};
  try {
    store.publish(manifest, "");
    FAIL() << "was published";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("file system that all ranks share"));
  }
  EXPECT_THAT(store.complete(), IsEmpty());
}

}  // namespace
}  // namespace trireme::checkpoint
