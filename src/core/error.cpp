// SPDX-License-Identifier: Apache-2.0
#include "trireme/core/error.h"

#include "trireme/core/out_of_memory.h"
#include "trireme/core/text.h"

#include <filesystem>
#include <new>
#include <system_error>

namespace trireme {

std::string words_of(const std::exception& error) {
  if (const auto* const of_file = dynamic_cast<const std::filesystem::filesystem_error*>(&error)) {
    const std::string reason = of_file->code().message();
    if (of_file->path1().empty())
      return concat("the working folder cannot be used: ", reason, ": change to one that can");
    return concat(of_file->path1().string(), ": cannot be used: ", reason);
  }
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return kOutOfMemory;
  const auto* const of_system = dynamic_cast<const std::system_error*>(&error);
  if (of_system != nullptr && of_system->code() == std::errc::resource_unavailable_try_again)
    return "a thread cannot be started: raise the limits of this process (ulimit -u, ulimit -v), "
           "or give the job fewer threads";
  const std::string text = error.what();
  return text.substr(0, text.find("\nException raised from "));
}

void ensure(bool condition, std::string_view text, std::source_location where) {
  if (condition) return;
  throw LogicError(
      concat("a defect of Trireme: ", text, " (", where.file_name(), ":", where.line(), ")"));
}

}  // namespace trireme
