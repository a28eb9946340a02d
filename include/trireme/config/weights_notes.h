// Notes on loaded weights whose settings are not all supported here.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"

#include <string>
#include <vector>

namespace trireme::config {

/// A line for each: a context beyond `max_position_embeddings`, `lora_dropout`, a `pad_token_id`
/// whose row learns. Reads the folders that `job` names; says nothing of what is not there.
std::vector<std::string> weights_notes(const JobSpec& job);

}  // namespace trireme::config
