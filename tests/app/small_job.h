// A job that takes a second.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/command.h"

#include <filesystem>
#include <string>

namespace trireme {

inline std::filesystem::path small_run(const TemporaryFolder& folder) {
  return folder.path() / "runs" / "small";
}

/// 3 steps of a small GPT on made-up text; its run folder is small_run(folder), `more` are
/// further lines of the file.
inline std::string small_job(const TemporaryFolder& folder, const std::string& more = "") {
  return folder.file("small.yaml",
                     "model: {kind: gpt, blocks: 2, width: 32, heads: 2, context: 16, vocabulary: "
                     "64, dropout: 0.1}\n"
                     "data: {kind: synthetic}\n"
                     "train: {steps: 3, batch: 8, micro_batch: 2, schedule: {warmup_steps: 1}}\n"
                     "threads: 1\n"
                     "report: {directory: " +
                         small_run(folder).string() + "}\n" + more);
}

}  // namespace trireme
