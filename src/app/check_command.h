// `trireme check`: is this file good, and what would come of it? Changes nothing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace trireme::app {

struct CheckArguments {
  std::string file;
  std::vector<std::string> settings;  ///< of a job
  std::string chain, platform;        ///< of a plan
  bool resolved = false;  ///< of a job: nothing but its defaults, which is all that is done here
  bool json = false;
};

/// Whether the file can be read and is none of the files with a format of their own.
bool is_job(const std::string& file);

/// Returns the exit code; throws InputError.
int check(const CheckArguments& arguments);

}  // namespace trireme::app
