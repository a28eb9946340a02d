// What an operator's schema says about its results.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/function_schema.h>

#include <cstddef>
#include <optional>

namespace emulated {

/// The argument that a result aliases: one that is written to, or viewed.
inline std::optional<std::size_t> argument_of(const c10::FunctionSchema& schema,
                                              const c10::Argument& result) {
  if (result.alias_info() == nullptr) return std::nullopt;
  const std::vector<c10::Argument>& arguments = schema.arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].alias_info() != nullptr && *arguments[i].alias_info() == *result.alias_info())
      return i;
  return std::nullopt;
}

}  // namespace emulated
