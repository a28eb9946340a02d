// All-reduce, reduce-scatter and all-gather over replicas, with a fixed order of addition.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"

#include <ATen/core/Tensor.h>

#include <span>
#include <string_view>

namespace trireme::runtime {

/// All-reduce where the values are: comm::all_reduce_sum() on CPU, else sum_in_chain(), with the
/// same bits.
void sum_over_replicas(comm::Channel& channel, std::span<const int> group, const at::Tensor& values,
                       std::string_view what);

/// All-reduce in place: each element becomes ((g0 + g1) + g2) + ... over the group's members, with
/// the bits of comm::all_reduce_sum(); `values` has one dimension and is contiguous. Partial sums
/// go from each member to the next and whole sums come back, pipelined in blocks: a member sends
/// each element once in either direction, as much as in a ring, but the order of addition does not
/// depend on an element's position. Collective; takes two blocks of device memory: 1/32 of the
/// values', at most 32 MiB and at least 8 KiB.
void sum_in_chain(comm::Channel& channel, std::span<const int> group, const at::Tensor& values,
                  std::string_view what);

/// Reduce-scatter: sum_over_replicas() where each member needs only parts[member], which follow one
/// another: its part has the same bits afterwards, all other numbers are undefined. On CPU a member
/// sends each number once; in a chain whole sums are passed back only as far as their owner.
void sum_for_owners(comm::Channel& channel, std::span<const int> group, const at::Tensor& values,
                    std::span<const comm::BufferRange> parts, std::string_view what);

/// All-gather: fills `bytes`, one dimension and contiguous, with every member's part as that member
/// has it. Collective.
void gather_from_owners(comm::Channel& channel, std::span<const int> group, const at::Tensor& bytes,
                        std::span<const comm::BufferRange> parts, std::string_view what);

}  // namespace trireme::runtime
