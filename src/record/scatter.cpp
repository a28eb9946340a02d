// SPDX-License-Identifier: Apache-2.0
#include "trireme/record/scatter.h"

#include "trireme/core/text.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace trireme::record {
namespace {

constexpr std::size_t kFewest = 20;
constexpr double kScattered = 2;

}  // namespace

std::string scatter_note(std::span<const Seconds> steps, int threads) {
  if (steps.size() <= kFewest) return "";
  std::vector<Seconds> sorted(steps.begin() + 1, steps.end());
  std::sort(sorted.begin(), sorted.end());
  const Seconds median = sorted[sorted.size() / 2], late = sorted[sorted.size() * 9 / 10];
  if (late <= kScattered * median) return "";
  return concat("note: step times vary: one in ten took over ", to_text(late), ", the median is ",
                to_text(median), "; other processes were using the cores",
                threads > 1 ? concat(", and every operator waits for the slowest of ", threads,
                                     " threads: fewer of them (threads: ", threads - 1,
                                     "), threads that sleep while they wait "
                                     "(OMP_WAIT_POLICY=passive), or cores of its own (taskset, "
                                     "mpirun --bind-to core) help")
                            : ": cores of its own (taskset, mpirun --bind-to core) help",
                "\n");
}

}  // namespace trireme::record
