// A shared library with a copy of this code, as libtrireme_cuda.so has one.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/io/library.h"

#include <string>

extern "C" const char* own_file_of_library();

extern "C" const char* own_file_of_library() {
  static const std::string kFile = trireme::io::own_file().string();
  return kFile.c_str();
}
