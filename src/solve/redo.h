// Ways to do a run of layers again from its kept input, with what each needs when: the choices of a
// plan that copies bytes back while layers are run again. A leaner way takes longer, but leaves room
// for what is coming back. The ways of a sub-chain are those of its cost table, one for each number
// of slots at which its time changes. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/program/action.h"
#include "trireme/solve/tables.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

namespace trireme::solve {

/// So many bytes must be there when `after` seconds of the way are still to come; later actions
/// need no more. Bytes as in the recurrences: the input of the first layer not counted.
struct Need {
  double after = 0;
  std::int64_t bytes = 0;
};

struct Redo {
  Slots m = 0;              ///< what it was planned for
  double duration = 0;      ///< seconds, backwards inside
  std::vector<Need> needs;  ///< from the last action to the first, rising

  std::int64_t most() const { return needs.back().bytes; }
};

class RedoTable {
 public:
  /// Values of m where the cost of a part changes, ascending, the least feasible one first.
  using Breakpoints = std::function<std::vector<Slots>(Part part, int s, int t)>;
  /// `reader` and `chain` must outlive it.
  RedoTable(const chain::Chain& chain, const CostReader& reader, Breakpoints breakpoints);

  /// Ways of C(s,t,.) or G_t(s,.), fastest first; made when first asked for. The reference holds
  /// until the table ends.
  const std::vector<Redo>& ways(Part part, int s, int t);
  std::vector<program::Action> actions(Part part, int s, int t, const Redo& way) const;
  Freedom freedom() const { return reader_.freedom(); }

 private:
  std::vector<Redo>& made(Part part, int s, int t);
  const Redo& way(Part part, int s, int t, Slots m);
  Redo compose(Part part, int s, int t, Slots m);
  Split best(Part part, int s, int t, Slots m) const;
  std::int64_t load(Part part, int t) const;

  const chain::Chain& chain_;
  const CostReader& reader_;
  Breakpoints breakpoints_;
  std::unordered_map<std::uint64_t, std::unique_ptr<std::vector<Redo>>> ways_;
};

/// The bytes of one untaped forward of k in a run that began at s, x[s-1] not counted.
std::int64_t run_bytes(const chain::Chain& chain, int s, int k);
/// a[i] + tt[i] and x[i] + a[i] + tb[i].
std::int64_t taping_bytes(const chain::Chain& chain, int i);
std::int64_t backward_bytes(const chain::Chain& chain, int i);

}  // namespace trireme::solve
