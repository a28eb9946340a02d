// SPDX-License-Identifier: Apache-2.0
#include "trireme/core/error.h"

#include "trireme/core/text.h"

namespace trireme {

std::string words_of(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find("\nException raised from "));
}

void ensure(bool condition, std::string_view text, std::source_location where) {
  if (condition) return;
  throw LogicError(
      concat("a defect of Trireme: ", text, " (", where.file_name(), ":", where.line(), ")"));
}

}  // namespace trireme
