// Jobs of the tests.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"

#include <string>

namespace trireme::config {

inline JobSpec read(const std::string& text, const LoadOptions& options = {}) {
  return read_job(io::parse(text, "dir/a.yaml"), options);
}

inline const std::string kLeast = "model: {kind: gpt}\ndata: {files: [x.txt]}\n";

}  // namespace trireme::config
