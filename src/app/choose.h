// `--solver all`: runs every solver on one question and times it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/partition/tried.h"

#include <string>
#include <vector>

namespace trireme::app {

/// Answers in the order of the solvers, and the time of each.
struct Comparison {
  std::vector<partition::Tried> tried;
  std::vector<Seconds> solving;
};

Comparison compare(const partition::Question& question, const std::vector<std::string>& solvers);

/// One row per solver, then why some refused.
std::string to_text(const Comparison& comparison, const partition::Question& question);

/// Prints to standard error which solvers are skipped because the chain is long.
void tell_left_out(const partition::Question& question);

}  // namespace trireme::app
