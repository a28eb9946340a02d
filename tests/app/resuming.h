// Fixture: a small job that ends too early and is resumed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "small_job.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>

namespace trireme {

inline nlohmann::json summary_of(const std::filesystem::path& run) {
  return nlohmann::json::parse(text_of(run / "summary.json"));
}

/// A small job that saves checkpoints.
class Resuming : public testing::Test {
 protected:
  CommandResult train(const std::string& settings, const std::string& before = "") {
    return run_command(before + " " + TRIREME_BINARY + " train " + job_ + " " + settings);
  }
  /// Trains 3 of 6 steps and leaves the folder as a crash would have.
  void crash_after_three() {
    train("--set checkpoint.every=3 --set train.steps=6");
    std::filesystem::remove_all(run_ / "checkpoints" / "step-6");
    std::filesystem::remove(run_ / "summary.json");
  }

  TemporaryFolder folder_;
  std::string job_ = small_job(folder_, "checkpoint: {every: 0}\n");
  std::filesystem::path run_ = small_run(folder_);
};

}  // namespace trireme
