// The commands that need LibTorch, as a library: a program with custom layers calls run() with its
// layer factories.
//
//     int main(int argc, char** argv) { return trireme::app::run(argc, argv, {{"mine",
//     make_mine}}); }
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/model/chain.h"

namespace trireme::app {

/// `trireme train JOB.yaml [--set section.key=value ...]`, alone or under mpirun, and `trireme
/// profile JOB.yaml [-o chain.yaml]`. Returns the exit code: 0; 1 failed; 2 wrong use or bad input;
/// 3 infeasible; 130 stopped by the user. `own` maps kinds of `model.kind` to factories. May be
/// called again, under mpirun by all ranks alike; a failure of one rank there ends all processes.
int run(int argc, const char* const* argv, const model::ModelRegistry& own = {});

}  // namespace trireme::app
