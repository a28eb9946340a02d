// Commands that only read and write files: no LibTorch, no MPI.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trireme::app {

/// Parses and runs; returns the exit code: 0; 1 failed; 2 wrong use or bad input; 3 infeasible.
int run_pure(int argc, const char* const* argv);

/// Whether these arguments of `check` ask for the cost of a job, which only the runtime can
/// measure: not with `--resolved`, nor for plans, chains and platforms.
bool forecasts_a_job(int argc, const char* const* argv);

}  // namespace trireme::app
