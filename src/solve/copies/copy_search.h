// Search for programs with activation offload: layer by layer, it decides what becomes of the input
// and how far layers run untaped, with the first forward pass and the backward pass planned
// together (Beaumont et al. 2021, POFO, section 4: the states and the transitions).
//
// A label stands for one way to run the layers before i: the bytes that stay on the device (the
// paper's A), what is still leaving when the forward of i begins (d_F), what must be back when the
// backward of i ends (d_B), and the time spent on both sides, waits included. Sizes are exact:
// nothing is rounded. A label is dropped when another one, idling a little, is no worse in any
// respect. What is left contains an optimum unless labels were left out for their number; then
// complete() is false.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "copy_lane.h"
#include "label_screen.h"
#include "redo.h"

#include "trireme/solve/solve.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace trireme::solve {

/// One decision: layers first..last are run for the first time; of them only the input of `first`
/// is kept, and the tape of `last` if `taped`, else x[last].
struct CopyStep {
  int first = 0, last = 0;
  bool taped = false;
  bool leaves = false;         ///< the input of `first` is offloaded meanwhile
  const Redo* redo = nullptr;  ///< how they are recomputed; null: all taped, i.e. first == last
};

/// What to plan for. The link's rates and its capacity are positive.
struct CopySetting {
  const Problem& problem;
  RedoTable* redo = nullptr;      ///< null: every layer is taped once
  std::size_t most_labels = 100;  ///< kept per layer and kind of input
};

template <class Lane>
class CopySearch {
 public:
  explicit CopySearch(const CopySetting& setting);

  /// Finds plans that take less than `bound` seconds. To be called once.
  void run(double bound = std::numeric_limits<double>::infinity());
  /// Whether no label was left out for its number: then an optimum is among `ends`, if any plan
  /// takes less than the bound.
  bool complete() const { return coarse_ == 0; }

  struct End {
    double time;  ///< with FluidLane the plan's time; with TensorLane a lower bound of the replay's
    std::int32_t label;
  };
  /// Plans, fastest first.
  std::vector<End> ends() const;
  std::vector<CopyStep> steps(const End& end) const;

 private:
  struct Label {
    Lane out, in;
    std::int64_t kept = 0, moved = 0;
    double least = 0;  // lower bound of the seconds of any plan from it
    std::int32_t from = -1;
    CopyStep step;

    double time() const { return out.now() + in.now(); }
  };
  // A first forward of some layers, their input leaving (label.step.leaves) or not.
  struct ForwardRun {
    Label label;
    std::int64_t room = 0;  // bytes next to what is kept and what is leaving
    bool open = true;
  };
  // By how much a label must be better than the others to stay.
  struct Margin {
    double time = 0;
    std::int64_t bytes = 0;
  };

  void expand(int i, std::int32_t from, bool taped_input);
  void keep_tape(ForwardRun run, int i);
  void run_again(std::array<ForwardRun, 2>& runs, int i);
  void add_untaped(const ForwardRun& run, int i, int j, std::int64_t room);
  void add_taped(ForwardRun run, int i, int j, std::int64_t room);
  bool run_layer(ForwardRun& run, int i, int k, std::int64_t bytes);
  const Redo* best_redo(const SubChain& chain, std::int64_t room, Lane& in);
  void add(Label label, const CopyStep& step, const Lane& in);
  double least_time(const Label& label) const;

  void prune(std::vector<Label>& labels);
  void keep_best(std::vector<Label>& labels, const Margin& margin);
  void choose_levels(const std::vector<Label>& labels);
  Sketch sketch(const Label& label, Role role) const;
  SketchLimit limit(const Label& label, const Margin& margin) const;
  bool no_worse(const Label& a, const Label& b, const Margin& margin) const;

  std::vector<Label>& place(int i, bool taped_input);
  std::size_t at(int i) const { return static_cast<std::size_t>(i - first_); }
  std::int64_t input_bytes(int i, bool taped_input) const;

  const CopySetting setting_;
  const chain::Chain& chain_;
  int first_, last_;
  std::int64_t capacity_;
  bool scarce_ = false;  // all that could move would not fit in the offload tier
  typename Lane::Track out_, in_;
  std::vector<double> work_, forward_;  // by layer: seconds of it and all later ones, each run once
  std::vector<std::int64_t> all_kept_;
  double bound_ = 0;
  std::int64_t item_ = 0;  // bytes of the input that is being decided on
  double coarse_ = 0;      // margin in use, as a share
  std::vector<std::vector<Label>> places_;
  std::vector<Label> labels_;
  LabelScreen screen_;
  LevelBytes out_levels_{}, in_levels_{};  // levels of sketches
};

extern template class CopySearch<FluidLane>;
extern template class CopySearch<TensorLane>;

}  // namespace trireme::solve
