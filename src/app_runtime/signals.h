// Ctrl-C and SIGTERM end a run between two actions, with everything closed; a second one ends the
// process at once. SIGUSR1, which mpirun and batch systems pass on, asks for a checkpoint first.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trireme::app {

/// From now on SIGINT and SIGTERM raise the first flag, SIGUSR1 the second; also one that came
/// before, where it was blocked. Called by the main thread before there are others.
void watch_signals();
bool stop_requested();
/// Throws Interrupted where a stop was requested before there was anything to close.
void require_not_stopped();
bool save_and_stop_requested();

}  // namespace trireme::app
