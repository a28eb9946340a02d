// SPDX-License-Identifier: Apache-2.0
#include "short_stages.h"

#include <algorithm>
#include <utility>

namespace trireme::partition {
namespace {

using program::Action;
using program::Op;
using program::StageProgram;

constexpr int kMostLayers = 5;

/// How layers between kept inputs are run again: the last `taped` of them at once, those before
/// them one by one from their inputs, or all at once.
struct Again {
  int taped = 1;
  bool from_inputs = true;
};

/// The layers between the last kept input and the next kept tape or the end; 0 if every tape is
/// kept.
int last_group(const std::vector<Op>& labels);
/// `latest` is for the group that the backward list meets first, which may run while the stage
/// waits for its gradient.
StageProgram with_labels(const StageQuestion& question, const std::vector<Op>& labels, Again latest,
                         Again others);
void run_again(int begin, int end, Again again, std::vector<Action>& actions);

}  // namespace

std::vector<StageProgram> short_stage_programs(const chain::Chain& chain,
                                               const StageQuestion& question) {
  const int layers = question.last - question.first + 1;
  std::vector<StageProgram> programs;
  if (layers > kMostLayers) return programs;
  std::vector<Op> labels(static_cast<std::size_t>(layers), Op::kForwardTape);
  constexpr Op kLabels[] = {Op::kForwardTape, Op::kForwardKeep, Op::kForward};
  const auto extend = [&](const auto& self, std::size_t k) -> void {
    if (k < labels.size()) {
      for (const Op label : kLabels) {
        const bool loose = k == 0 || labels[k - 1] == Op::kForwardTape;
        if (label == Op::kForward && loose) continue;  // its input stays for it or inside a tape
        labels[k] = label;
        self(self, k + 1);
      }
      return;
    }
    const int group = last_group(labels);
    for (int taped = std::min(1, group); taped <= group; ++taped) {
      for (const bool from_inputs : {true, false}) {
        if (!from_inputs && taped == group) continue;
        for (const int taped_before : {1, layers}) {
          StageProgram program =
              with_labels(question, labels, {taped, from_inputs}, {taped_before, true});
          if (prepared(chain, program).needs.memory(question.in_flight) <= question.memory)
            programs.push_back(std::move(program));
        }
      }
    }
  };
  extend(extend, 0);
  return programs;
}

namespace {

int last_group(const std::vector<Op>& labels) {
  int size = 0;
  for (auto label = labels.rbegin(); label != labels.rend(); ++label) {
    if (*label == Op::kForwardTape && size == 0) continue;
    ++size;
    if (*label == Op::kForwardKeep) return size;
  }
  return 0;
}

StageProgram with_labels(const StageQuestion& question, const std::vector<Op>& labels, Again latest,
                         Again others) {
  bool is_latest = true;
  StageProgram program{.first_layer = question.first, .last_layer = question.last};
  for (std::size_t k = 0; k < labels.size(); ++k)
    program.forward.push_back({labels[k], question.first + static_cast<int>(k)});
  for (int end = question.last; end >= question.first; --end) {
    const auto label = [&](int i) { return labels[static_cast<std::size_t>(i - question.first)]; };
    if (label(end) == Op::kForwardTape) {
      program.backward.push_back({Op::kBackward, end});
      continue;
    }
    int begin = end;
    while (label(begin) == Op::kForward) --begin;
    run_again(begin, end, is_latest ? latest : others, program.backward);
    is_latest = false;
    end = begin;
  }
  return program;
}

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

}  // namespace
}  // namespace trireme::partition
