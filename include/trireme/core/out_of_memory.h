// The message for std::bad_alloc, whose own says nothing useful.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trireme {

inline constexpr const char* kOutOfMemory =
    "the system gave this process no more memory: ask for something smaller, or run it where there "
    "is more";

}  // namespace trireme
