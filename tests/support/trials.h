// How many random cases a test looks at.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trireme {

/// `count` where the code runs at full speed; `part` of it under a sanitizer, which takes ten
/// times as long and finds what it finds in few. What is expected of the cases is divided alike.
constexpr int trials(int count, double part = 0.125) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  const auto fewer = static_cast<int>(count * part);
  return fewer < 1 ? 1 : fewer;
#else
  static_cast<void>(part);
  return count;
#endif
}

}  // namespace trireme
