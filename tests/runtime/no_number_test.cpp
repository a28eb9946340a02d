// Checkpoints and weights with NaN or infinities, as earlier versions or other programs may have
// written them: refused by their tensor's name, whoever reads them.
// SPDX-License-Identifier: Apache-2.0
#include "small_runs.h"
#include "support/input_error.h"
#include "support/temporary_folder.h"

#include "trireme/checkpoint/store.h"
#include "trireme/checkpoint/tensor_file.h"
#include "trireme/checkpoint/tensor_set.h"
#include "trireme/core/digest.h"
#include "trireme/core/text.h"
#include "trireme/io/file.h"
#include "trireme/runtime/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <limits>
#include <string>

namespace trireme::runtime {
namespace {

using support::input_error;
using support::TemporaryFolder;
using testing::HasSubstr;
using testing::StartsWith;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Puts a value at the end of a tensor's bytes.
template <class Number>
void put(const std::filesystem::path& file, const checkpoint::Entry& entry, Number value) {
  std::string bytes = io::read_file(file);
  std::memcpy(bytes.data() + (entry.offset + entry.size).count() - sizeof value, &value,
              sizeof value);
  io::write_file(file, bytes);
}

/// A checkpoint of one run, in which every digest is right.
class Poisoned : public testing::Test {
 protected:
  void save(config::ModelSpec model) {
    job_ = small_job(std::move(model));
    Checkpointing checkpoints;
    checkpoints.folder = folder_.path();
    checkpoints.every = job_.train.steps;
    checkpoints.job = "train: {}\n";
    run_small(job_, {.cut = {2}}, {}, device::cpu(), checkpoints);
    job_.train.steps *= 2;
  }
  void poison(const std::string& tensor, float value) {
    checkpoint::Manifest manifest = checkpoint::load_manifest(checkpoint_);
    checkpoint::Entry& entry = manifest.tensors.at(tensor);
    put(checkpoint_ / entry.file, entry, value);
    const std::string bytes = io::read_file(checkpoint_ / entry.file);
    entry.digest =
        digest(bytes.data() + entry.offset.count(), static_cast<std::size_t>(entry.size.count()));
    io::write_file(checkpoint::manifest_file(checkpoint_), checkpoint::to_json(manifest));
  }
  std::string resuming() {
    return input_error([&] {
      Checkpointing checkpoints;
      checkpoints.resume = checkpoint_;
      run_small(job_, {.cut = {3}}, {}, device::cpu(), checkpoints);
    });
  }
  std::string exporting(at::ScalarType type = at::kFloat) {
    std::filesystem::remove(folder_ / "w.safetensors");
    return input_error(
        [&] { export_weights(checkpoint_, job_.model, type, folder_ / "w.safetensors"); });
  }

  TemporaryFolder folder_;
  config::JobSpec job_{io::parse("{}", "none")};
  std::filesystem::path checkpoint_ = folder_ / "step-3";
};

TEST_F(Poisoned, IsRefusedByResumption) {
  for (const std::string tensor : {"parameters/head/norm.weight", "first_moments/head/norm.weight",
                                   "second_moments/head/norm.weight", "losses"}) {
    for (const float value : {kNan, kInfinity, -kInfinity}) {
      save(small_gpt());
      poison(tensor, value);
      EXPECT_THAT(resuming(), HasSubstr(concat("tensor '", tensor, "' holds ",
                                               value == kInfinity    ? "inf"
                                               : value == -kInfinity ? "-inf"
                                                                     : "nan")));
      EXPECT_THAT(resuming(), HasSubstr("the run had diverged when it was saved"));
      std::filesystem::remove_all(checkpoint_);
    }
  }
}

TEST_F(Poisoned, StatisticsAreRefusedByResumptionAndExport) {
  save(small_mlp());
  std::string buffer;
  for (const auto& [name, entry] : checkpoint::load_manifest(checkpoint_).tensors)
    if (name.starts_with("buffers/") && entry.type == "F32") buffer = name;
  ASSERT_NE(buffer, "");
  poison(buffer, kNan);
  EXPECT_THAT(resuming(), HasSubstr(concat("tensor '", buffer, "' holds nan")));
  EXPECT_THAT(exporting(), HasSubstr(concat("tensor '", buffer, "' holds nan")));
}

TEST_F(Poisoned, IsRefusedByExportAndGenerate) {
  save(small_gpt());
  poison("parameters/head/norm.weight", kNan);
  EXPECT_THAT(exporting(), HasSubstr("tensor 'parameters/head/norm.weight' holds nan"));
  EXPECT_THAT(input_error([&] {
                LanguageModel::of_checkpoint(model::make_model(job_.model), checkpoint_);
              }),
              HasSubstr("tensor 'parameters/head/norm.weight' holds nan"));
}

TEST_F(Poisoned, IsAnExportInATypeThatHasNoSuchNumbers) {
  save(small_gpt());
  poison("parameters/head/norm.weight", 1e6F);
  EXPECT_THAT(exporting(at::kHalf), StartsWith("parameters/head/norm.weight: has inf at index 31 "
                                               "once it is F16, whose range is too small"));
  EXPECT_EQ(exporting(at::kBFloat16), "no InputError was thrown");
  poison("parameters/head/norm.weight", std::numeric_limits<float>::max());
  EXPECT_THAT(exporting(at::kBFloat16), HasSubstr("once it is BF16"));
  EXPECT_EQ(exporting(), "no InputError was thrown");
}

/// Weights as other programs write them: every tensor of these in the given type, one value put
/// into the last place of `lm_head`'s norm.
TEST_F(Poisoned, WeightsAreRefusedByTheRunThatBeginsWithThem) {
  struct Other {
    std::string type;
    at::ScalarType torch;
  };
  for (const auto& [type, torch] :
       {Other{"F32", at::kFloat}, Other{"BF16", at::kBFloat16}, Other{"F16", at::kHalf}}) {
    save(small_gpt());
    ASSERT_EQ(exporting(torch), "no InputError was thrown");
    const std::filesystem::path file = folder_ / "w.safetensors";
    const checkpoint::TensorSet set = checkpoint::find_tensors(file);
    const std::string name = "transformer.ln_f.weight";
    if (type == "F32")
      put(file, set.tensors.at(name), kNan);
    else
      put(file, set.tensors.at(name), std::uint16_t{0xffff});
    config::JobSpec job = small_job(small_gpt());
    job.weights = file.string();
    const std::string expected = concat("w.safetensors: tensor '", name, "' holds nan at index 31");
    EXPECT_THAT(input_error([&] { run_small(job, {.cut = {2}}); }), HasSubstr(expected));
    EXPECT_THAT(input_error([&] {
                  LanguageModel::of_weights(model::make_model(job.model), job.model, file);
                }),
                HasSubstr(expected));
    std::filesystem::remove_all(checkpoint_);
  }
}

}  // namespace
}  // namespace trireme::runtime
