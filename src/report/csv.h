// Cells of CSV.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace trireme::report {

/// The text, in double quotes where it has a comma, quote or line break (RFC 4180).
inline std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

}  // namespace trireme::report
