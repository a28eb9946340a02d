// Where this code lies: in a program, or in a library that another program has loaded (Python's
// extension).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace trireme::device {

/// The file that holds this code.
std::filesystem::path own_file();

/// The program or library that holds the code at `address`; empty if there is none.
std::filesystem::path file_of_code(const void* address);

}  // namespace trireme::device
