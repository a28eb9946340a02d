// Common checkpointing policies: nothing is searched, the budget is only checked. Segments as in
// Chen et al. 2016; a number of segments as torch's checkpoint_sequential cuts them.
//
// SPDX-License-Identifier: Apache-2.0
#include "baselines.h"

#include "judge/judge.h"

#include "trireme/core/error.h"
#include "trireme/program/generate.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>

namespace trireme::solve {
namespace {

using program::Op;

int read_count(std::string_view solver, std::string_view argument);
int layers_of(const Problem& problem) {
  return problem.last_layer - problem.first_layer + 1;
}

}  // namespace

Result solve_keep_all(const Problem& problem, std::string_view argument) {
  if (!argument.empty()) refuse_argument("keep_all", argument);
  return within_budget(problem, program::keep_all(problem.first_layer, problem.last_layer));
}

Result solve_recompute_all(const Problem& problem, std::string_view argument) {
  if (!argument.empty()) refuse_argument("recompute_all", argument);
  return within_budget(problem, program::recompute_all(problem.first_layer, problem.last_layer));
}

Result solve_periodic(const Problem& problem, std::string_view argument) {
  const int asked = argument.empty() ? 2 : read_count("periodic", argument);
  const int period = std::min(asked, layers_of(problem));
  std::vector<int> starts;
  for (int i = problem.first_layer; i <= problem.last_layer; i += period) starts.push_back(i);
  return within_budget(problem, segmented(problem, starts));
}

Result solve_sqrt(const Problem& problem, std::string_view argument) {
  if (!argument.empty()) refuse_argument("sqrt", argument);
  const int layers = layers_of(problem);
  const int segments = static_cast<int>(std::lround(std::sqrt(layers)));
  const int length = layers / segments;
  std::vector<int> starts;
  for (int k = 0; k < segments; ++k) starts.push_back(problem.first_layer + k * length);
  return within_budget(problem, segmented(problem, starts));
}

program::StageProgram segmented(const Problem& problem, const std::vector<int>& starts) {
  ensure(!starts.empty() && starts.front() == problem.first_layer, "segments cover all layers");
  program::StageProgram program{.first_layer = problem.first_layer,
                                .last_layer = problem.last_layer};
  for (std::size_t k = starts.size(); k-- > 0;) {
    const bool last = k + 1 == starts.size();
    const int begin = starts[k], end = last ? problem.last_layer : starts[k + 1] - 1;
    for (int i = begin; i <= end && !last; ++i) program.backward.push_back({Op::kForwardTape, i});
    for (int i = end; i >= begin; --i) program.backward.push_back({Op::kBackward, i});
  }
  for (std::size_t k = 0; k < starts.size(); ++k) {
    const bool last = k + 1 == starts.size();
    const int begin = starts[k], end = last ? problem.last_layer : starts[k + 1] - 1;
    for (int i = begin; i <= end; ++i) {
      const Op untaped = i == begin ? Op::kForwardKeep : Op::kForward;
      program.forward.push_back({last ? Op::kForwardTape : untaped, i});
    }
  }
  return program;
}

namespace {

int read_count(std::string_view solver, std::string_view argument) {
  int count = 0;
  const char* end = argument.data() + argument.size();
  const auto [stop, error] = std::from_chars(argument.data(), end, count);
  if (error != std::errc() || stop != end || count < 1) refuse_argument(solver, argument, "k");
  return count;
}

}  // namespace
}  // namespace trireme::solve
