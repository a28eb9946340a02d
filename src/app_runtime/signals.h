// Ctrl-C and SIGTERM end a run between two actions, with everything closed; a second one ends the
// process at once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trireme::app {

/// From now on SIGINT and SIGTERM raise the flag.
void watch_signals();
bool stop_requested();

}  // namespace trireme::app
