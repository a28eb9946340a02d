// Fixture: a small run that has checkpoints, for the commands that read them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "small_job.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <memory>
#include <string>

namespace trireme {

inline CommandResult trireme(const std::string& arguments) {
  return run_command(std::string(TRIREME_BINARY) + " " + arguments);
}

/// A run with two checkpoints, made once.
class SavedRun : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    const std::string job = small_job(*folder_, "checkpoint: {every: 2}\n");
    ASSERT_EQ(trireme("train " + job).exit_code, 0);
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static std::string run() { return small_run(*folder_).string(); }
  static std::string digest_of(const std::filesystem::path& run) {
    return nlohmann::json::parse(text_of(run / "summary.json"))["parameters_digest"];
  }

  void expect_no_drafts() const {
    for (const auto& entry : std::filesystem::directory_iterator(own_.path()))
      EXPECT_NE(entry.path().extension(), ".draft") << entry.path();
  }

  static inline std::unique_ptr<TemporaryFolder> folder_;
  TemporaryFolder own_;
  std::string out_ = (own_.path() / "model").string();
};

}  // namespace trireme
