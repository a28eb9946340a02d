// Which layers go to whom when one rank may have several stages: MadPipe's dynamic program
// (Beaumont, Eyraud-Dubois and Shilova 2022), with what the special rank has so far kept as sets of
// labels that none beats, not in steps of load and memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "allocation.h"
#include "shared_plans.h"

#include <vector>

namespace trireme::partition {

class AllocationSearch {
 public:
  /// The plans must outlive it. Of labels with equal layers and ranks placed `most_labels` are
  /// kept.
  AllocationSearch(SharedPlans& plans, int special, std::size_t most_labels);

  /// Allocations in which every rank and link is done with a micro-batch within `period`, each rank
  /// within its memory for as many in flight as 1F1B* has; those that take few in flight or leave
  /// the special rank room. None if there is none, or if it was lost among too many labels.
  std::vector<Allocation> within(double period);

  /// No period is shorter, even if nothing were run twice.
  double least_period() const;

 private:
  /// Layers begin..L are placed.
  struct Label {
    int begin = 1, last = 0;  ///< of the first stage among them
    int rank = -1;            ///< that has it
    int normals = 0, specials = 0;
    int after = -1;          ///< label without that stage
    double load = 0;         ///< of the special rank
    double in_flight = 0;    ///< seconds from the begin of its forward to the end of its backward
    Bytes kept{}, beyond{};  ///< of the special rank

    Bytes memory() const { return kept + beyond; }
  };
  std::vector<int>& labels_at(int begin, int normals, bool special);
  void thin(std::vector<int>& labels) const;
  void extend(int label, double period);
  /// Layers from `first` on to where `label` begins, on `rank`; what the stage takes is not in it.
  Label with_stage(int label, int first, int rank) const;
  void extend_normal(int label, int first, double period);
  void extend_special(int label, int first, double period);
  bool hopeless(const Label& label, double period) const;
  /// Seconds in flight of what follows a stage on `rank`, its link inside; kNever if that is slow.
  double behind_link(const Label& label, int rank, double period) const;
  int count(double seconds, double period) const;
  Allocation traced(int label) const;
  void add(const Label& label);

  SharedPlans& plans_;
  const StageRoom& room_;
  int special_;
  std::size_t most_labels_;
  std::vector<int> normal_;
  std::vector<Label> labels_;
  std::vector<std::vector<int>> states_;
};

}  // namespace trireme::partition
