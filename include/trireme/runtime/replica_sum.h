// The sum of the replicas' gradients, in a fixed order, and what of it each of them needs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"

#include <ATen/core/Tensor.h>

#include <span>
#include <string_view>

namespace trireme::runtime {

/// Adds where the values are: on CPU by comm::all_reduce_sum(), elsewhere by sum_in_chain(), to the
/// same bits.
void sum_over_replicas(comm::Channel& channel, std::span<const int> group, const at::Tensor& values,
                       std::string_view what);

/// Element by element ((g0 + g1) + g2) + ... over the group's members, the bits of
/// comm::all_reduce_sum(), in place; `values` has one dimension and is contiguous. Partial sums go
/// from each member to the next, whole sums come back, block behind block: a member passes each
/// element on once in either direction, as many as a ring would, but no element's order of adding
/// depends on where it stands. Every member; takes two blocks of device memory: 1/32 of the
/// values', at most 32 MiB and at least 8 KiB.
void sum_in_chain(comm::Channel& channel, std::span<const int> group, const at::Tensor& values,
                  std::string_view what);

/// sum_over_replicas() of which each member needs a part alone, parts[member], one behind the
/// other: its part has the same bits afterwards, all other numbers are of no use. On CPU a member
/// sends each number once; in a chain sums go down no further than to their owner.
void sum_for_owners(comm::Channel& channel, std::span<const int> group, const at::Tensor& values,
                    std::span<const comm::Part> parts, std::string_view what);

/// The way back: of `bytes`, one dimension and contiguous, every member's part as that member has
/// it. Every member.
void gather_from_owners(comm::Channel& channel, std::span<const int> group, const at::Tensor& bytes,
                        std::span<const comm::Part> parts, std::string_view what);

}  // namespace trireme::runtime
