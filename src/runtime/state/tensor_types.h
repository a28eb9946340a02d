// Tensor types by their safetensors names.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::runtime {

/// "F32". Throws Error for a type that has no name.
std::string type_name(at::ScalarType type);
/// Throws InputError for a name that is not one of LibTorch's types; `tensor` says in the message
/// what has it.
at::ScalarType type_named(const std::string& name, const std::string& tensor);

/// Whether a finite value may become infinite when rounded to the other type.
bool may_overflow(at::ScalarType from, at::ScalarType to);

/// "F32 [2, 3]"; without a type "[2, 3]".
std::string shape_text(const std::string& type, const std::vector<std::int64_t>& sizes);

}  // namespace trireme::runtime
