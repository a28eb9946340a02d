// Chains as files have them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/input_error.h"

#include "trireme/chain/chain.h"

#include <string>

namespace trireme::chain {

/// Of a chain, what stands before its layers: four lines.
inline const std::string kHead = "format: trireme-chain/1\nname: c\ninput_bytes: 8\nlayers:\n";

inline Chain read(const std::string& text) {
  return read_chain(io::parse(text, "c.yaml"));
}

inline std::string refusal(const std::string& text) {
  return support::input_error([&] { read(text); });
}

}  // namespace trireme::chain
