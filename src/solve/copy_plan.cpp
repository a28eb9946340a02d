// Searching for copies. SPDX-License-Identifier: Apache-2.0
#include "copy_plan.h"

#include "interval_table.h"
#include "least_column.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

namespace trireme::solve {
namespace {

// Plans of the fluid relaxation that are replayed: they are close to each other in value, and whole
// tensors treat them differently.
constexpr std::size_t kFluidPlans = 8;

}  // namespace

void BestProgram::offer(const std::vector<CopyPart>& parts) {
  CopyProgram made = copy_program(problem_, parts);
  if (made.needed <= problem_.budget) {
    offer(judged_with_copies(problem_, std::move(made.program)));
  }
}

void BestProgram::offer(std::optional<Solution> solution) {
  if (solution && solution->time.count() < bound()) best_ = std::move(solution);
}

void search_copies(const CopySetting& setting, BestProgram& best) {
  {
    CopySearch<FluidLane> search(setting);
    search.run(best.bound());
    std::vector<CopySearch<FluidLane>::End> ends = search.ends();
    if (getenv("DBG")) fprintf(stderr, "[%d] bound %.6g fluid %.6g labels %zu ends %zu\n", (int)search.complete(), best.bound(), ends.empty()?-1:ends[0].time, search.most_seen_, ends.size());
    ends.resize(std::min(ends.size(), kFluidPlans));
    for (const auto& end : ends) best.offer(parts_of(search.steps(end), setting.redo));
    if (getenv("DBG")) fprintf(stderr, "after fluid %.6g\n", best.bound());
  }
  CopySearch<TensorLane> search(setting);
  search.run(best.bound());
  int n = 0;
  auto ends = search.ends();
  for (const auto& end : ends) {
    if (end.time >= best.bound()) break;
    best.offer(parts_of(search.steps(end), setting.redo)); ++n;
  }
  if (getenv("DBG")) fprintf(stderr, "[%d] tensor %.6g (lb %.6g) labels %zu ends %zu replayed %d\n", (int)search.complete(), best.bound(), ends.empty()?-1:ends[0].time, search.most_seen_, ends.size(), n);
}

}  // namespace trireme::solve
