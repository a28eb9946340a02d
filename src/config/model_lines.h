// The keys of a model as a resolved job writes them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"

#include <string>

namespace trireme::config {

/// `kind` and all other keys but `weights`, in YAML, not indented.
std::string model_lines(const ModelSpec& model);

}  // namespace trireme::config
