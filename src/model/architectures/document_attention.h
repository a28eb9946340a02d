// Attention within documents that share rows (model::Context::documents): sequence packing without
// documents that see each other.
//
// Shapes: B rows of T tokens, N = B x T tokens of all documents, H heads of queries, G of keys and
// values, D values of a head.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "architectures/attention.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace trireme::model {

/// Rows of `table` for the position of every token in its document: [positions, ...] to [N, ...].
/// Queues work alone: no copy from the host.
at::Tensor by_position(const at::Tensor& table, const std::vector<std::int64_t>& documents);

/// causal_attention() of every document by itself; q [B, T, H, D], k and v [B, T, G, D], returns
/// [B, T, H x D].
///
/// On a CPU each document runs through the kernel that it would run through alone, with the same
/// bits, and saves what attention() saves; masks of windows are made anew in the backward. On
/// another device documents are kept apart by a mask, T x T numbers for each row, which is saved
/// with what attention() saves.
at::Tensor document_attention(const at::Tensor& q_BTHD, const at::Tensor& k_BTGD,
                              const at::Tensor& v_BTGD, const std::vector<std::int64_t>& documents,
                              const Scores& scores);

}  // namespace trireme::model
