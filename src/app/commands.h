// The commands that read and write files alone: no LibTorch, no MPI.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trireme::app {

/// Parses and runs; returns the exit code: 0; 1 failed; 2 wrong use or bad input; 3 infeasible.
int run_pure(int argc, const char* const* argv);

/// Whether these arguments of `check` ask what a job would cost, which only the runtime can
/// measure: not those of `check JOB --resolved`, nor of `check plan.json`.
bool forecasts_a_job(int argc, const char* const* argv);

}  // namespace trireme::app
