// The modules that an adapter_config.json of peft chooses.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"
#include "trireme/io/node.h"

#include <string>
#include <vector>

namespace trireme::config {

/// The modules, as `model.lora_targets` names them, that `target_modules`, `exclude_modules`,
/// `layers_to_transform`, and `layers_pattern` choose in `model`, by peft's rules (its
/// check_target_module_exists): a list of names or ends of names, a regular expression for whole
/// names, or "all-linear". Throws InputError where they choose a module outside the blocks, or
/// different modules in different blocks: here all blocks have the same.
std::vector<std::string> adapter_targets(const io::Node& config, const ModelSpec& model);

}  // namespace trireme::config
