// SPDX-License-Identifier: Apache-2.0
#include "trireme/io/library.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <dlfcn.h>
#include <link.h>

#include <system_error>

namespace trireme::io {

std::filesystem::path own_file() {
  Dl_info place{};
  void* found = nullptr;
  const void* const here = reinterpret_cast<const void*>(&own_file);
  ensure(dladdr1(here, &place, &found, RTLD_DL_LINKMAP) != 0, "code lies in a loaded file");
  const std::string name = static_cast<const link_map*>(found)->l_name;
  // The executable has no name there: dladdr would give argv[0], which need not be a path.
  if (name.empty()) return std::filesystem::read_symlink("/proc/self/exe");
  return std::filesystem::absolute(name);
}

void* load_entry_point(const std::filesystem::path& library, const std::string& entry_point,
                       const LibraryHelp& help) {
  std::error_code failure;
  if (!std::filesystem::exists(library, failure))
    throw InputError(concat(library.string(), " is missing: ", help.if_missing));
  // Global: what it links may have parts that find each other by name.
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) {
    const char* const reason = ::dlerror();  // NOLINT(concurrency-mt-unsafe)
    throw InputError(concat(
        library.string(), " cannot be loaded: ", reason == nullptr ? "no reason was given" : reason,
        ": ", help.if_not_loadable));
  }
  void* const symbol = ::dlsym(handle, entry_point.c_str());
  if (symbol == nullptr) {
    throw InputError(concat(library.string(), " has no ", entry_point,
                            ": it is not of this build: build both again"));
  }
  return symbol;
}

}  // namespace trireme::io
