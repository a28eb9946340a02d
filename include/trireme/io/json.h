// JSON that is written. What is read goes through node.h, which knows lines.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace trireme::io {

/// A value to write. Keys stay in the order in which they were added; floating-point numbers read
/// back as the same, and have a point or an exponent; those that JSON lacks are written as null.
using Json = nlohmann::ordered_json;

/// Both write U+FFFD for what is not UTF-8, and never throw.
std::string one_line(const Json& json);  ///< without a line break at its end
std::string document(const Json& json);  ///< indented by two spaces, with a line break at its end

}  // namespace trireme::io
