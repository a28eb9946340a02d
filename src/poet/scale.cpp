// SPDX-License-Identifier: Apache-2.0
#include "scale.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

namespace trireme::poet {
namespace {

constexpr double kRange = 1e4;

double per(double whole) {
  return whole > 0 && std::isfinite(whole) ? kRange / whole : 1;
}
void set_bytes(Scale& scale, const graph::Problem& problem);
void set_objective(Scale& scale, const graph::Problem& problem, Aim aim);

}  // namespace

Scale scale_of(const graph::Problem& problem, const Question& question) {
  Scale scale;
  set_bytes(scale, problem);
  scale.second = per(std::min(problem.deadline, question.horizon).count());
  set_objective(scale, problem, question.aim);
  return scale;
}

namespace {

// Sizes are multiples of their greatest common divisor. The limit lies half of it above what fits,
// so that no tolerance lets a schedule in that does not fit, or keeps one out that does.
void set_bytes(Scale& scale, const graph::Problem& problem) {
  std::int64_t divisor = 0, all = 0;
  for (const graph::Node& node : problem.graph.nodes) {
    divisor = std::gcd(divisor, std::gcd(node.bytes.count(), node.transient.count()));
    all += node.bytes.count();
  }
  divisor = std::max(divisor, std::int64_t{1});
  const std::int64_t limit = problem.memory == Bytes(0) ? all : problem.memory.count();
  const double units = static_cast<double>(limit / divisor) + 0.5;
  const double each = std::min(1.0, kRange / units);
  scale.byte = each / static_cast<double>(divisor);
  scale.half_a_unit = each / 2;
  if (problem.memory > Bytes(0)) scale.memory = units * each;
}

// The scale is a step in which every node is computed once.
void set_objective(Scale& scale, const graph::Problem& problem, Aim aim) {
  Joules energy{0};
  Seconds time{0};
  for (const graph::NodeCost& cost : problem.costs) {
    energy += cost.energy;
    time += cost.time;
  }
  if (aim == Aim::kEnergy) scale.objective = per(energy.count());
  if (aim == Aim::kTime) scale.objective = per(time.count());
  if (aim == Aim::kMemory) scale.objective = scale.byte;
}

}  // namespace
}  // namespace trireme::poet
