// Exit codes of the commands.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trireme::app {

inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;
inline constexpr int kWrongUse = 2;
inline constexpr int kInfeasible = 3;

}  // namespace trireme::app
