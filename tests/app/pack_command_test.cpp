// `trireme pack-images` end to end.
// SPDX-License-Identifier: Apache-2.0
#include "budgets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>

namespace trireme {
namespace {

using testing::HasSubstr;

class Pack : public testing::Test {
 protected:
  Pack() {
    std::filesystem::create_directories(folder_.path() / "in" / "cat");
    std::filesystem::create_directories(folder_.path() / "in" / "ant");
    for (int i = 0; i < 12; ++i) {
      std::string pixels;
      for (int k = 0; k < 5 * 3; ++k)
        pixels.push_back(static_cast<char>('!' + (7 * i + 5 * k) % 90));
      folder_.file(std::string(i % 2 == 0 ? "in/cat/" : "in/ant/") + std::to_string(i) + ".pgm",
                   "P5 5 3 255\n" + pixels);
    }
  }
  CommandResult pack(const std::string& files) const {
    return run_command(kTrireme + " pack-images " + files + " --side 4 --channels 1 -o " + packed_);
  }
  nlohmann::json train(const std::string& files) const {
    const CommandResult run =
        run_command(kTrireme + " train " + job_ + " --set 'data.files=[\"" + files + "\"]'");
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    return summary_of(folder_);
  }

  TemporaryFolder folder_;
  std::string in_ = folder_.path().string() + "/in/*/*.pgm",
              packed_ = folder_.path().string() + "/all.packed";
  std::string job_ = folder_.file(
      "job.yaml",
      "model: {kind: vit, image_size: 4, channels: 1, patch: 2, blocks: 1, width: 8, heads: 2, "
      "classes: 2}\n"
      "data: {kind: images, validation_fraction: 0}\n"
      "train: {steps: 2, batch: 4, micro_batch: 2, schedule: {warmup_steps: 1}}\n"
      "threads: 1\n"
      "report: {directory: " +
          small_run(folder_).string() + "}\n");
};

TEST_F(Pack, TrainsAsTheFilesThemselves) {
  const CommandResult run = pack("'" + in_ + "'");
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_EQ(run.out, "12 images of 2 classes in " + packed_ + "\n");
  const nlohmann::json files = train(in_);
  std::filesystem::remove_all(small_run(folder_));
  const nlohmann::json one = train(packed_);
  EXPECT_EQ(one.at("losses_digest"), files.at("losses_digest"));
  EXPECT_EQ(one.at("parameters_digest"), files.at("parameters_digest"));
}

TEST_F(Pack, SaysWhichFileIsBroken) {
  folder_.file("in/cat/12.pgm", "P5 5 3 255\nshort");
  const CommandResult run = pack("'" + in_ + "'");
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.errors, HasSubstr("in/cat/12.pgm: is truncated: 5 bytes of pixels, must be 15"));
  EXPECT_FALSE(std::filesystem::exists(packed_));
}

}  // namespace
}  // namespace trireme
