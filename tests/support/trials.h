// How many random cases a test looks at.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

namespace trireme {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif

/// `count` where the code runs at full speed; `part` of it under a sanitizer, which takes ten
/// times as long and finds what it finds in few. What is expected of the cases is divided alike.
constexpr int trials(int count, double part = 0.125) {
  return kIsSanitized ? std::max(1, static_cast<int>(count * part)) : count;
}

}  // namespace trireme
