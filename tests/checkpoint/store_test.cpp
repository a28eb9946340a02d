// SPDX-License-Identifier: Apache-2.0
#include "trireme/checkpoint/store.h"

#include "support/input_error.h"
#include "support/temporary_folder.h"

#include "trireme/checkpoint/tensor_file.h"
#include "trireme/core/error.h"
#include "trireme/io/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::checkpoint {
namespace {

using support::input_error;
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

TEST(Store, GivesBackTheJobThatWasPublishedAndNoOther) {
  const TemporaryFolder folder;
  const Store store(folder.path());
  save(store, 9);
  const auto place = store.complete().back().folder;
  const Manifest manifest = load_manifest(place);
  EXPECT_TRUE(load_job(place, manifest).find("train").has_value());

  const std::string job = io::read_file(job_file(place));
  for (std::size_t bit = 0; bit < 8 * job.size(); ++bit) {
    std::string changed = job;
    changed[bit / 8] ^= static_cast<char>(1 << bit % 8);
    io::write_file(job_file(place), changed);
    EXPECT_THAT(input_error([&] { load_job(place, manifest); }),
                HasSubstr("job.yaml: is not the job that the checkpoint was saved by"));
  }
  // One of an earlier version.
  Manifest earlier = manifest;
  earlier.job.clear();
  io::write_file(job_file(place), "train: 3\n");
  EXPECT_EQ(load_job(place, earlier).find("train")->text(), "3");
}

TEST(Store, KnowsACheckpointUnderTheNameOfAnotherStep) {
  const TemporaryFolder folder;
  const Store store(folder.path());
  save(store, 9);
  std::filesystem::rename(store.place(9), store.place(8));
  EXPECT_THAT(input_error([&] { load_manifest(store.complete().back()); }),
              HasSubstr("manifest.json: step is 9, must be 8, as in the folder's name"));
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

TEST(Store, SweepsDraftsAlone) {
  const TemporaryFolder folder;
  const Store store(folder.path());
  save(store, 1);
  drafted(store, 2);
  store.sweep();
  EXPECT_THAT(steps_in(store), ElementsAre(1));
  EXPECT_FALSE(std::filesystem::exists(store.draft(2)));
  Store(folder / "nothing").sweep();
}

TEST(Store, KeepsTheNewest) {
  const TemporaryFolder folder;
  const Store store(folder.path());
  for (const int step : {5, 10, 15, 100}) save(store, step);
  store.keep(2, 100);
  EXPECT_THAT(steps_in(store), ElementsAre(15, 100));
  store.keep(2, 100);
  EXPECT_THAT(steps_in(store), ElementsAre(15, 100));
}

// Later checkpoints of a run that was in the folder before, or that were copied there.
TEST(Store, NeverRemovesTheStepJustPublishedForOthersThatComeLater) {
  const TemporaryFolder folder;
  const Store store(folder.path());
  for (const int step : {1, 2, 50, 60}) save(store, step);
  save(store, 3);
  store.keep(2, 3);
  EXPECT_THAT(steps_in(store), ElementsAre(2, 3, 50, 60));
}

// A failing disk must not look like one without checkpoints, where a new run may begin.
TEST(Store, SaysWhyAFolderCannotBeLookedInto) {
  const TemporaryFolder folder;
  io::write_file(folder / "checkpoints", "");
  EXPECT_THAT(input_error([&] { Store(folder / "checkpoints").complete(); }),
              HasSubstr((folder / "checkpoints").string() + ": cannot be read: Not a directory"));
}

TEST(Store, SaysWhichCheckpointCannotBeLookedAt) {
  const TemporaryFolder folder;
  const Store store(folder.path());
  save(store, 1);
  std::filesystem::create_symlink("step-2", folder / "step-2");  // a link to itself
  EXPECT_THAT(input_error([&] { store.complete(); }),
              HasSubstr((folder / "step-2").string() + ": cannot be read: "));
}

TEST(Store, TakesALinkToNothingForNoCheckpoint) {
  const TemporaryFolder folder;
  const Store store(folder.path());
  save(store, 1);
  std::filesystem::create_symlink("nothing", folder / "step-2");
  EXPECT_THAT(steps_in(store), ElementsAre(1));
}

TEST(Store, SaysWhyAFileOfAManifestCannotBeLookedAt) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("a", folder / "a");
  const Manifest manifest{.tensors = {{"n", {.file = "a", .size = Bytes(8)}}}};
  EXPECT_THAT(input_error([&] { incomplete_file(manifest, folder.path()); }),
              HasSubstr((folder / "a").string() + ": cannot be read: "));
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

TEST(Store, SavesNothingWhereTheRunsFolderIsGone) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "run");
  const Store store(folder / "run" / "checkpoints");
  save(store, 1);
  std::filesystem::rename(folder / "run", folder / "renamed");

  std::string said;
  try {
    store.begin(2);
  } catch (const Error& error) {
    said = error.what();
  }

  EXPECT_THAT(said, HasSubstr((folder / "run").string() + ": is not there any more"));
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

}  // namespace
}  // namespace trireme::checkpoint
