// Plans of all shipped chains on all shipped platforms, written down so that two versions of the
// planner can be compared.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/core/units.h"
#include "trireme/partition/problem.h"

#include <filesystem>
#include <string>
#include <vector>

namespace trireme::partition {

/// Leaves to the planner all that a user can fix.
void open_everything(Question& question);

/// How much memory a rank has: `kept` of the activations of all micro-batches in flight, and
/// `resident` of its share of what does not change from one to the next.
struct Memory {
  const char* name;
  double resident, kept;
};
inline constexpr Memory kMemories[] = {
    {"ample", 1.3, 0.6}, {"tight", 1.1, 0.1}, {"small", 0.6, 0.05}};

/// Bytes of a rank. They follow from the chain alone: no planner's answer is in them.
Bytes budget(const chain::Chain& chain, int stages, const Memory& memory);

/// Files of chains or platforms, by name.
std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder);

/// Plans every question of the corpus whose name has that part, `configs` with the folders `chains`
/// and `platforms`. Prints a line for each and writes to `file` a table separated by tabs: name,
/// digest of the answer as JSON (infeasible ones too), step in seconds ("-" for none), seconds of
/// planning. Returns an exit code.
int plan_corpus(const std::filesystem::path& configs, const std::filesystem::path& file,
                const std::string& part = "");

/// Prints how the answers in `after` differ from those in `before`: how many are equal to the byte,
/// which steps are more than 1 % longer, the geometric mean of the steps' ratios, sums and maxima
/// of planning times. Returns 1 where a question is in one of them alone, a plan was lost, or a
/// step is more than 1 % longer.
int compare_corpora(const std::filesystem::path& before, const std::filesystem::path& after);

}  // namespace trireme::partition
