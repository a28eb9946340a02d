// The search for programs that copy what they keep to the outer tier and back: layer by layer, what
// becomes of its input and how far it is run untaped, with the first forward pass and the backward
// pass planned at once (Beaumont et al. 2021, POFO, section 4: the states and the transitions).
//
// A label stands for one way to do the layers before i: the bytes that stay (the paper's A), what is
// still leaving when the forward of i begins (d_F), what must be back when the backward of i ends
// (d_B), and the time spent on both sides, waits inside. Sizes are exact: nothing is rounded. A label
// is dropped when another one, idling a little, is no worse in any respect, so that what is left
// contains an optimum unless labels had to be left out for their number.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "copy_lane.h"
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
  bool leaves = false;         ///< the input of `first` goes to the outer tier meanwhile
  const Redo* redo = nullptr;  ///< how they are done again; null: all taped, i.e. first == last
};

/// What plans are made for. The link's rates and capacity are positive.
struct CopySetting {
  const Problem& problem;
  RedoTable* redo = nullptr;  ///< null: every layer is taped once
  std::size_t most_labels = 1000;  ///< per layer and kind of input
};

template <class Lane>
class CopySearch {
 public:
  explicit CopySearch(const CopySetting& setting);

  /// Finds plans that take less than `bound` seconds.
  void run(double bound = std::numeric_limits<double>::infinity());
  /// Whether no label was left out for its number: then among `ends` is an optimum.
  bool complete() const { return complete_; }

  struct End {
    double time;  ///< of FluidLane: the plan's; of TensorLane: a lower bound of what replay finds
    std::int32_t label;
  };
  /// Plans, fastest first.
  std::vector<End> ends() const;
  std::vector<CopyStep> steps(const End& end) const;

 private:
  struct Label {
    Lane out, in;
    std::int64_t kept = 0, moved = 0;
    std::int32_t from = -1;
    CopyStep step;

    double time() const { return out.now() + in.now(); }
  };
  // A first forward of some layers, their input leaving (label.step.leaves) or not.
  struct Run {
    Label label;
    std::int64_t room = 0;  // beside what is kept and what is leaving
    bool open = true;
  };

  void expand(int i, std::int32_t from, bool taped_input);
  void keep_tape(Run run, int i);
  void run_again(std::array<Run, 2>& runs, int i);
  void add_untaped(const Run& run, int i, int j, std::int64_t room);
  void add_taped(Run run, int i, int j, std::int64_t room);
  bool run_layer(Run& run, int i, int k, std::int64_t bytes);
  const Redo* best_redo(Part part, int i, int j, std::int64_t room, Lane& in);
  void add(const Run& run, const CopyStep& step, const Lane& in);
  std::vector<Label>& place(int i, bool taped_input);
  double work(int i) const { return work_[static_cast<std::size_t>(i - first_)]; }
  void prune(std::vector<Label>& labels);
  // By how much a label must be better to stay.
  struct Margin {
    double time = 0;
    std::int64_t bytes = 0;
  };
  void keep_best(std::vector<Label>& labels, const Margin& margin) const;
  bool no_worse(const Label& a, const Label& b, const Margin& margin) const;

  const CopySetting setting_;
  const chain::Chain& chain_;
  int first_, last_;
  std::int64_t capacity_;
  bool scarce_;  // all that could move would not fit in the outer tier
  typename Lane::Track out_, in_;
  std::vector<double> work_;  // by layer: seconds of it and all later ones, done once
  double bound_ = 0;
  std::int64_t item_ = 0;     // bytes of the input that is being decided on
  bool complete_ = true;
  double coarse_ = 1e-4;
 public: std::size_t most_seen_ = 0; private:
  std::vector<std::vector<Label>> places_;
  std::vector<Label> labels_;
};

extern template class CopySearch<FluidLane>;
extern template class CopySearch<TensorLane>;

}  // namespace trireme::solve
