// Problems with a link, for the tests of solvers that copy.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "solve/chains.h"

#include "trireme/solve/solve.h"

#include <cstdint>
#include <limits>

namespace trireme::solve {

inline constexpr double kNone = std::numeric_limits<double>::infinity();
inline constexpr Bytes kPlenty{std::int64_t{1} << 50};

inline Problem linked(const chain::Chain& chain, std::int64_t budget, double out, double in,
                      int slots = 0) {
  Problem problem = whole(chain, budget, slots);
  problem.link = HostLink{BytesPerSecond(out), BytesPerSecond(in), kPlenty};
  return problem;
}

inline double seconds(const Result& result) {
  return feasible(result) ? time_of(result) : kNone;
}

inline Solution kept_all(const chain::Chain& chain) {
  return std::get<Solution>(solve("keep_all", whole(chain, kPlenty.count())));
}

// A rate at which all that a program holds is copied once while it runs.
inline double bytes_per_second(const Solution& solution) {
  const double time = solution.time.count();
  return time > 0 ? static_cast<double>(solution.peak.count()) / time : 1;
}

}  // namespace trireme::solve
