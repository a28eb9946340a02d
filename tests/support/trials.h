// How many random cases a test looks at.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trireme {

/// `count` where the code runs at full speed; a quarter of it under a sanitizer, which takes ten
/// times as long and finds what it finds in few. What is expected of so many cases is divided
/// alike.
constexpr int trials(int count) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return count / 4;
#else
  return count;
#endif
}

}  // namespace trireme
