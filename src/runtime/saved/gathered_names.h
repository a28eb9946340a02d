// Gathers the names of tensors that all ranks have read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"
#include "trireme/core/text.h"

#include <set>
#include <string>
#include <string_view>

namespace trireme::runtime {

/// Collective: the names of all ranks; `mine` are those of this rank, one a line.
inline std::set<std::string> gathered_names(comm::Channel& channel, const std::string& mine,
                                            std::string_view what) {
  std::set<std::string> all;
  for (const std::string& names : comm::all_gather(channel, comm::everyone(channel), mine, what))
    for (const std::string& name : split(names, '\n')) all.insert(name);
  return all;
}

}  // namespace trireme::runtime
