// From a solution's columns to its schedule.
// SPDX-License-Identifier: Apache-2.0
#include "model.h"

#include "trireme/core/error.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace trireme::poet {
namespace {

using graph::Op;
using graph::Problem;
using graph::Schedule;
using Kind = Event::Kind;

/// How far from 0 or 1 a solver may leave a binary column.
constexpr double kIntegral = 1e-5;

/// An event that happens.
struct Happening {
  Event event;
  std::vector<int> last_uses = {};  ///< values that nothing needs any more afterwards
};
using Happenings = std::vector<Happening>;

Happenings chosen(const Model& model, const std::vector<double>& columns);
bool is_chosen(const Milp& milp, const std::vector<double>& columns, int column);
Schedule with_drops(const Model& model, const Problem& problem, const Happenings& happenings);

/// Goes from the end to the beginning, so that it is known what is needed later.
class Pruning {
 public:
  explicit Pruning(const Problem& problem)
      : problem_(problem),
        is_needed_(problem.graph.nodes.size()),
        is_read_(problem.graph.nodes.size()) {}
  /// Without what is made, read or copied out for nothing; with last uses.
  Happenings operator()(Happenings all) &&;

 private:
  bool is_useful(const Event& event) const;
  void visit(Happening& happening);
  void use(Happening& happening, int node);
  void come(Happening& happening);

  const Problem& problem_;
  std::vector<bool> is_needed_;  ///< by node: where the visit is now
  std::vector<bool> is_read_;    ///< by node: read back later
};

}  // namespace

Schedule schedule_of(const Problem& problem, const Model& model,
                     const std::vector<double>& columns) {
  return with_drops(model, problem, Pruning(problem)(chosen(model, columns)));
}

namespace {

Happenings chosen(const Model& model, const std::vector<double>& columns) {
  Happenings happenings;
  for (const Event& event : model.events) {
    const bool is_one = event.column < 0 ? event.kind == Kind::kCompute
                                         : is_chosen(model.milp, columns, event.column);
    if (is_one != (event.kind == Kind::kLeave)) happenings.push_back({event});
  }
  return happenings;
}

bool is_chosen(const Milp& milp, const std::vector<double>& columns, int column) {
  const double value = columns[static_cast<std::size_t>(column)];
  const bool is_free = !milp.columns[static_cast<std::size_t>(column)].is_integer;
  ensure(is_free || std::abs(value - std::round(value)) < kIntegral,
         "a solver leaves binary columns at 0 or 1");
  return value > 0.5;
}

Happenings Pruning::operator()(Happenings all) && {
  Happenings kept;
  std::reverse(all.begin(), all.end());
  for (Happening& happening : all) {
    if (!is_useful(happening.event)) continue;
    visit(happening);
    kept.push_back(std::move(happening));
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
}

bool Pruning::is_useful(const Event& event) const {
  const auto node = static_cast<std::size_t>(event.node);
  switch (event.kind) {
    case Kind::kRead:
      return is_needed_[node];
    case Kind::kCompute:
      return is_needed_[node] || event.column == Event::kAlways;
    case Kind::kCopyOut:
      return is_read_[node];
    case Kind::kLeave:
      return true;
  }
  return true;
}

void Pruning::visit(Happening& happening) {
  const Event& event = happening.event;
  switch (event.kind) {
    case Kind::kRead:
      is_read_[static_cast<std::size_t>(event.node)] = true;
      return come(happening);
    case Kind::kCompute:
      come(happening);
      for (const int input : problem_.graph.node(event.node).inputs) use(happening, input);
      return;
    case Kind::kCopyOut:
      return use(happening, event.node);
    case Kind::kLeave:
      return;
  }
}

void Pruning::use(Happening& happening, int node) {
  if (!is_needed_[static_cast<std::size_t>(node)]) happening.last_uses.push_back(node);
  is_needed_[static_cast<std::size_t>(node)] = true;
}

void Pruning::come(Happening& happening) {
  use(happening, happening.event.node);
  is_needed_[static_cast<std::size_t>(happening.event.node)] = false;
}

Op op_of(Kind kind) {
  if (kind == Kind::kRead) return Op::kCopyIn;
  return kind == Kind::kCompute ? Op::kCompute : Op::kCopyOut;
}

// A value is dropped after its last use; with clocks one that is copied out where the solution says
// so, since compute waits there for the copy.
Schedule with_drops(const Model& model, const Problem& problem, const Happenings& happenings) {
  Schedule schedule;
  std::vector<bool> is_out(problem.graph.nodes.size()), is_unused(problem.graph.nodes.size());
  for (const auto& [event, last_uses] : happenings) {
    const auto node = static_cast<std::size_t>(event.node);
    if (event.kind == Kind::kLeave) {
      if (is_unused[node]) schedule.push_back({Op::kDrop, event.node});
      is_unused[node] = false;
      continue;
    }
    schedule.push_back({op_of(event.kind), event.node});
    if (event.kind == Kind::kCopyOut) is_out[node] = model.has_clocks;
    for (const int value : last_uses) {
      is_unused[static_cast<std::size_t>(value)] = is_out[static_cast<std::size_t>(value)];
      if (!is_out[static_cast<std::size_t>(value)]) schedule.push_back({Op::kDrop, value});
    }
  }
  return schedule;
}

}  // namespace
}  // namespace trireme::poet
