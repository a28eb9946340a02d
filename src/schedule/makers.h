// The orders of ranks with several chunks, each by its published rule. Numbers are at least 1.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/schedule/order.h"

#include <vector>

namespace trireme::schedule {

/// Chunks round robin, whole backwards (Narayanan et al. 2021, Megatron-LM).
Order interleaved(int ranks, int per_rank, int micro_batches);
/// Chunks round robin, whole backwards: all micro-batches through one chunk, then through the next
/// (Lamy-Poirier 2023), and back likewise, in the order of micro-batches. All go round before rank
/// 0 takes any again, so they need room: streams of two messages hold 3 p - 1 of them.
Order looped_bfs(int ranks, int per_rank, int micro_batches);

/// V-shaped, two chunks on a rank, split backwards (Qi et al. 2024, Zero Bubble, section 6).
Order zb_v(int ranks, int micro_batches);
/// V-shaped, two chunks on a rank, some backwards split (DeepSeek-AI's DualPipe, cut in half).
/// Throws InputError for fewer micro-batches than chunks.
Order dualpipe_v(int ranks, int micro_batches);

/// V-shaped, two chunks on a rank, split backwards (Qi et al. 2024, Controllable Memory): about
/// half of 1F1B's activations.
Order v_half(int ranks, int micro_batches);
/// About a third.
Order v_min(int ranks, int micro_batches);

/// A rank's passes of micro-batches before `micro_batches`. Where an order has no circle, it has
/// none without its last micro-batches, whatever the streams hold.
std::vector<Pass> without_surplus(const std::vector<Pass>& passes, int micro_batches);

}  // namespace trireme::schedule
