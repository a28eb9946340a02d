// SPDX-License-Identifier: Apache-2.0
#include "trireme/io/folder.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <system_error>

namespace trireme::io {

namespace fs = std::filesystem;

fs::path plain_name(const fs::path& folder, const std::string& key) {
  std::error_code failure;
  fs::path name = fs::absolute(folder, failure);
  if (failure)
    throw InputError(concat(key, ": ", folder.string(),
                            " is relative to a working folder that is gone (", failure.message(),
                            "): start the run in another one"));
  name = name.lexically_normal();
  return name.filename().empty() ? name.parent_path() : name;
}

fs::path real_name(const fs::path& folder, const std::string& key) {
  const fs::path name = plain_name(folder, key);
  std::error_code failure;
  fs::path real = fs::weakly_canonical(name, failure);
  return failure ? name : real;
}

}  // namespace trireme::io
