// Short ways to validate programs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "simulate/random_programs.h"

#include "trireme/simulate/validate.h"

#include <string>
#include <vector>

namespace trireme::simulate {

/// Ranks without budgets, with copy lanes and a large offload tier, free links.
inline chain::Platform open_platform(int ranks) {
  chain::Platform platform;
  platform.ranks.assign(static_cast<std::size_t>(ranks), {Bytes(0), Bytes(1 << 30), Bytes(0),
                                                          BytesPerSecond(3), BytesPerSecond(3), 1});
  return platform;
}

inline std::string verdict(const program::Program& program, const chain::Chain& chain,
                           const chain::Platform& platform, int capacity = 2) {
  const auto fault = validate(program, {&chain, &platform, {}, capacity});
  return fault ? to_text(*fault) : "proven";
}

/// Outputs of ten bytes, tapes of a hundred.
inline chain::Chain even_chain(int layers) {
  return chain_of(10,
                  std::vector<Costs>(static_cast<std::size_t>(layers), {1, 2, 10, 100, 1, 2, 13}));
}

}  // namespace trireme::simulate
