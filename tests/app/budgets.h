// Small jobs and their budgets, for end-to-end tests.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "small_job.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>

namespace trireme {

inline const std::string kTrireme = TRIREME_BINARY;

inline nlohmann::json summary_of(const TemporaryFolder& folder) {
  return nlohmann::json::parse(text_of(small_run(folder) / "summary.json"));
}

/// Output of `trireme check` for a budget that nothing fits in.
inline std::int64_t least_budget(const std::string& job, const std::string& settings = "") {
  const CommandResult run =
      run_command(kTrireme + " check --json " + job + " --set memory.device_budget=1 " + settings);
  EXPECT_EQ(run.exit_code, 3) << run.errors;
  return nlohmann::json::parse(run.out)["infeasible"]["least_budget_bytes"];
}

inline std::string budget(std::int64_t bytes) {
  return " --set memory.device_budget=" + std::to_string(bytes);
}

}  // namespace trireme
