// Orders of passes: which pass of which chunk every rank of a pipeline runs next.
//
// A chunk is a stage of the pipeline: contiguous layers on one rank. A rank owns one chunk or
// several, which take turns.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::schedule {

/// One pass of one chunk for one micro-batch. Micro-batches are implied: the n-th forward of a
/// chunk in its rank's list is of micro-batch n, as are its n-th backward (whole or of the input)
/// and the n-th pass that gives gradients of weights (whole or of the weights). So these gradients
/// are summed in the order of micro-batches.
struct Pass {
  enum class Kind : char {
    kForward,          ///< "F"
    kBackward,         ///< "B": whole; gives the gradients of the input and of weights
    kBackwardInput,    ///< "I": the gradient of the input alone
    kBackwardWeights,  ///< "W": the gradients of weights that an "I" deferred
  };

  Kind kind{};
  int chunk = 0;

  auto operator<=>(const Pass&) const = default;
};

/// Whether it gives the gradient of the chunk's input: B, I.
bool is_backward(Pass::Kind kind);
/// Whether it gives gradients of weights: B, W.
bool gives_weights(Pass::Kind kind);

/// By rank, its passes in the order in which it runs them.
using Order = std::vector<std::vector<Pass>>;

/// The rank of every chunk, in chain order.
using Placement = std::vector<int>;

/// Chunk k on rank k.
Placement one_each(int ranks);
/// Chunk c on rank c mod `ranks`, `per_rank` chunks on each (Megatron-LM's virtual stages).
Placement round_robin(int ranks, int per_rank);
/// Up and down: chunk c p + r on rank r where c is even and on rank p-1-r where it is odd (the V of
/// Qi et al. 2024, Controllable Memory, for two chunks; a W for four).
Placement v_shaped(int ranks, int per_rank);

/// One more than the highest rank.
int ranks_of(const Placement& placement);
/// Whether some rank has several chunks.
bool shares_ranks(const Placement& placement);

/// The micro-batch of every pass of a rank's list.
std::vector<int> micro_batches_of(const std::vector<Pass>& passes);
/// Largest number of micro-batches of each chunk between the begin of a forward and the end of its
/// backward; by chunk.
std::vector<int> in_flight(const Order& order, const Placement& placement);
/// By chunk, the largest number of further backwards that run between an I and its W; nothing where
/// all backwards are whole.
std::vector<std::optional<int>> deferred_passes(const Order& order, const Placement& placement);
/// Forwards of chunk 0.
int micro_batches_of(const Order& order, const Placement& placement);

/// Throws InputError unless every chunk runs on its rank, the same number of micro-batches, at
/// least 1, each forward before its backward, and either no backwards at all or all, with gradients
/// of weights for each, in order: no B while an I's W is deferred. Whether ranks wait in a circle
/// is for timed() and the validator.
void require_sound(const Order& order, const Placement& placement);

/// 'F', 'B', 'I' or 'W'.
char letter(Pass::Kind kind);
/// "F0*4 (F1 B1)*2 F0": a number after a star counts equal passes, or groups of passes, in a row.
std::string to_text(const std::vector<Pass>& passes);
/// The reverse; throws InputError that says what was expected, for more than `most` passes, too.
std::vector<Pass> parse_passes(std::string_view text, int most);

}  // namespace trireme::schedule
