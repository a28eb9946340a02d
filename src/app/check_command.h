// `trireme check`: validates a file and predicts its cost, without changing anything.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace trireme::app {

struct CheckArguments {
  std::string file;
  std::vector<std::string> settings;  ///< --set, for a job
  std::string chain, platform;        ///< for a plan
  bool resolved = false;  ///< only print the job with its defaults, which is all that is done here
  bool json = false;
};

/// Whether the file can be read and has no `format` of its own.
bool is_job(const std::string& file);

/// Returns the exit code; throws InputError.
int check(const CheckArguments& arguments);

}  // namespace trireme::app
