// Checks tensors in weight files that are not parameters of the model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/checkpoint/tensor_set.h"
#include "trireme/config/huggingface.h"

#include <string>

namespace trireme::runtime {

/// Throws InputError with the tensor's name if one that the model does not take would change it: a
/// causal mask that is not causal, a masked score that lets masked pairs through, other rotary
/// angles than those of `model`, a tied head with other values than the embedding. `place` is the
/// file or folder in messages.
void require_nothing_new(const checkpoint::TensorSet& set, const config::ModelSpec& model,
                         const std::string& place);

}  // namespace trireme::runtime
