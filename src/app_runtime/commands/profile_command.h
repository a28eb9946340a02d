// `trireme profile JOB.yaml`: measures the layers of a job on this machine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/model/chain.h"

#include <string>
#include <vector>

namespace trireme::app {

struct ProfileArguments {
  std::string job_file;
  std::vector<std::string> settings;  ///< "section.key=value"
  std::string output;                 ///< chain.yaml; empty: none
  bool fresh = false;                 ///< measure even where a stored profile would do
  bool json = false;  ///< one document on standard output, everything else on standard error
};

/// Returns the exit code; errors are printed. Uses and fills `.profiles` next to the job's report
/// folder.
int profile(const ProfileArguments& arguments, const model::ModelRegistry& own);

}  // namespace trireme::app
