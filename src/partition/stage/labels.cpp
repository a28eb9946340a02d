// SPDX-License-Identifier: Apache-2.0
#include "labels.h"

#include "values/lookup.h"

#include <algorithm>
#include <utility>

namespace trireme::partition {
namespace {

using program::Action;
using program::Op;
using program::StageProgram;

/// Most layers of a stage for which all programs are tried.
constexpr int kMostLayers = 5;

void run_again(int begin, int end, Again again, std::vector<Action>& actions) {
  const int taped = std::max(begin, end - again.taped + 1);
  for (int i = begin; i < taped; ++i)
    actions.push_back({again.from_inputs || i == begin ? Op::kForwardKeep : Op::kForward, i});
  for (int i = taped; i <= end; ++i) actions.push_back({Op::kForwardTape, i});
  for (int i = end; i >= taped; --i) actions.push_back({Op::kBackward, i});
  if (taped == begin) return;
  if (!again.from_inputs) {
    run_again(begin, taped - 1, {taped - begin, false}, actions);
    return;
  }
  for (int i = taped - 1; i >= begin; --i)
    actions.insert(actions.end(), {{Op::kForwardTape, i}, {Op::kBackward, i}});
}

/// Number of layers between the last kept input and the next kept tape or the end; 0 if every tape
/// is kept.
int last_group(const std::vector<Op>& labels) {
  int size = 0;
  for (auto label = labels.rbegin(); label != labels.rend(); ++label) {
    if (*label == Op::kForwardTape && size == 0) continue;
    ++size;
    if (*label == Op::kForwardKeep) return size;
  }
  return 0;
}

}  // namespace

StageProgram labelled(int first, const std::vector<Op>& labels, Again latest, Again others) {
  const auto label = [&](int i) { return labels[at(i - first)]; };
  StageProgram program{.first_layer = first,
                       .last_layer = first + static_cast<int>(labels.size()) - 1};
  for (int i = first; i <= program.last_layer; ++i) program.forward.push_back({label(i), i});
  for (int end = program.last_layer; end >= first; --end) {
    if (label(end) == Op::kForwardTape) {
      program.backward.push_back({Op::kBackward, end});
      continue;
    }
    int begin = end;
    while (label(begin) == Op::kForward) --begin;
    run_again(begin, end, std::exchange(latest, others), program.backward);
    end = begin;
  }
  return program;
}

std::vector<StageProgram> short_stage_programs(const chain::Chain& chain,
                                               const StageQuestion& question) {
  const int layers = question.layers.size();
  std::vector<StageProgram> programs;
  if (layers > kMostLayers) return programs;
  std::vector<Op> labels(at(layers), Op::kForwardTape);
  const auto add = [&](Again latest, Again others) {
    StageProgram program = labelled(question.layers.first, labels, latest, others);
    if (prepared(chain, program).needs.memory(question.in_flight) <= question.memory)
      programs.push_back(std::move(program));
  };
  const auto extend = [&](const auto& self, std::size_t k) -> void {
    if (k < labels.size()) {
      for (const Op label : {Op::kForwardTape, Op::kForwardKeep, Op::kForward}) {
        const bool loose = k == 0 || labels[k - 1] == Op::kForwardTape;
        if (label == Op::kForward && loose) continue;  // its input is kept by itself or in a tape
        labels[k] = label;
        self(self, k + 1);
      }
      return;
    }
    const int group = last_group(labels);
    for (int taped = std::min(1, group); taped <= group; ++taped) {
      for (const bool from_inputs : {true, false}) {
        if (!from_inputs && taped == group) continue;
        for (const int taped_before : {1, layers}) add({taped, from_inputs}, {taped_before, true});
      }
    }
  };
  extend(extend, 0);
  return programs;
}

}  // namespace trireme::partition
