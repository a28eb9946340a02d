// Chain files for the tests.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/input_error.h"

#include "trireme/chain/chain.h"

#include <string>

namespace trireme::chain {

/// The head of a chain file, before its layers: four lines.
inline const std::string kHead = "format: trireme-chain/1\nname: c\ninput_bytes: 8\nlayers:\n";

inline Chain read(const std::string& text) {
  return read_chain(io::parse(text, "c.yaml"));
}

inline std::string refusal(const std::string& text) {
  return support::input_error([&] { read(text); });
}

}  // namespace trireme::chain
