// SPDX-License-Identifier: Apache-2.0
#include "trireme/schedule/order.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <set>
#include <utility>

namespace trireme::schedule {
namespace {

/// Passes of a chunk that have been seen.
struct Counts {
  int forwards = 0, backwards = 0, weights = 0;
  int in_flight() const { return forwards - backwards; }

  /// Counts a pass and returns its micro-batch.
  int add(Pass::Kind kind) {
    if (kind == Pass::Kind::kForward) return forwards++;
    int micro_batch = 0;
    if (gives_weights(kind)) micro_batch = weights++;
    if (is_backward(kind)) micro_batch = backwards++;
    return micro_batch;
  }
};

/// Counts a pass of a chunk; throws InputError where it may not come next.
void count(Pass pass, std::size_t rank, Counts& counts) {
  const auto refuse = [&](std::string_view why) {
    throw InputError(concat("rank ", rank, ": ", to_text({pass}), " of micro-batch ",
                            Counts(counts).add(pass.kind), " ", why));
  };
  if (is_backward(pass.kind) && counts.in_flight() == 0) refuse("comes before its forward");
  if (pass.kind == Pass::Kind::kBackward && counts.weights < counts.backwards)
    refuse(concat("comes while W", pass.chunk, " of micro-batch ", counts.weights,
                  " is deferred: gradients of weights are summed in the order of micro-batches"));
  if (pass.kind == Pass::Kind::kBackwardWeights && counts.weights == counts.backwards)
    refuse(concat("comes before its I", pass.chunk));
  counts.add(pass.kind);
}

}  // namespace

bool is_backward(Pass::Kind kind) {
  return kind == Pass::Kind::kBackward || kind == Pass::Kind::kBackwardInput;
}

bool gives_weights(Pass::Kind kind) {
  return kind == Pass::Kind::kBackward || kind == Pass::Kind::kBackwardWeights;
}

Placement one_each(int ranks) {
  return round_robin(ranks, 1);
}

Placement round_robin(int ranks, int per_rank) {
  Placement placement;
  for (int chunk = 0; chunk < ranks * per_rank; ++chunk) placement.push_back(chunk % ranks);
  return placement;
}

Placement v_shaped(int ranks, int per_rank) {
  Placement placement = round_robin(ranks, per_rank);
  for (std::size_t chunk = 0; chunk < placement.size(); ++chunk)
    if (chunk / static_cast<std::size_t>(ranks) % 2 == 1)
      placement[chunk] = ranks - 1 - placement[chunk];
  return placement;
}

int ranks_of(const Placement& placement) {
  return placement.empty() ? 0 : 1 + *std::max_element(placement.begin(), placement.end());
}

bool shares_ranks(const Placement& placement) {
  return std::set<int>(placement.begin(), placement.end()).size() < placement.size();
}

std::vector<int> micro_batches_of(const std::vector<Pass>& passes) {
  std::vector<Counts> counts;  // by chunk
  std::vector<int> numbers;
  numbers.reserve(passes.size());
  for (const Pass pass : passes) {
    const auto chunk = static_cast<std::size_t>(pass.chunk);
    if (chunk >= counts.size()) counts.resize(chunk + 1);
    numbers.push_back(counts[chunk].add(pass.kind));
  }
  return numbers;
}

std::vector<int> in_flight(const Order& order, const Placement& placement) {
  std::vector<Counts> counts(placement.size());
  std::vector<int> most(placement.size());
  for (const std::vector<Pass>& passes : order) {
    for (const Pass pass : passes) {
      const auto chunk = static_cast<std::size_t>(pass.chunk);
      counts[chunk].add(pass.kind);
      most[chunk] = std::max(most[chunk], counts[chunk].in_flight());
    }
  }
  return most;
}

std::vector<std::optional<int>> deferred_passes(const Order& order, const Placement& placement) {
  std::vector<Counts> counts(placement.size());
  std::vector<std::optional<int>> most(placement.size());
  for (const std::vector<Pass>& passes : order) {
    for (const Pass pass : passes) {
      const auto chunk = static_cast<std::size_t>(pass.chunk);
      counts[chunk].add(pass.kind);
      if (pass.kind == Pass::Kind::kBackwardInput)
        most[chunk] =
            std::max(most[chunk].value_or(0), counts[chunk].backwards - counts[chunk].weights - 1);
    }
  }
  return most;
}

int micro_batches_of(const Order& order, const Placement& placement) {
  const std::vector<Pass>& passes = order.at(static_cast<std::size_t>(placement.at(0)));
  return static_cast<int>(
      std::count(passes.begin(), passes.end(), Pass{.kind = Pass::Kind::kForward, .chunk = 0}));
}

void require_sound(const Order& order, const Placement& placement) {
  if (std::cmp_not_equal(order.size(), ranks_of(placement)))
    throw InputError(concat("an order of passes for ", order.size(), " ranks, must be for ",
                            ranks_of(placement)));
  std::vector<Counts> counts(placement.size());
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    for (const Pass pass : order[rank]) {
      const auto chunk = static_cast<std::size_t>(pass.chunk);
      if (pass.chunk < 0 || chunk >= placement.size())
        throw InputError(concat("rank ", rank, " has a pass of chunk ", pass.chunk,
                                ", must be 0 to ", placement.size() - 1));
      if (std::cmp_not_equal(placement[chunk], rank))
        throw InputError(concat("rank ", rank, " has a pass of chunk ", pass.chunk,
                                ", which is on rank ", placement[chunk]));
      count(pass, rank, counts[chunk]);
    }
  }
  for (std::size_t chunk = 0; chunk < counts.size(); ++chunk) {
    const Counts& one = counts[chunk];
    if (one.forwards == 0 || one.forwards != counts[0].forwards)
      throw InputError(concat("chunk ", chunk, " runs ", one.forwards,
                              " micro-batches, chunk 0 runs ", counts[0].forwards,
                              "; must be the same and at least 1"));
    const int backwards = counts[0].backwards == 0 ? 0 : one.forwards;
    if (one.backwards != backwards || one.weights != backwards)
      throw InputError(concat("chunk ", chunk, " runs ", one.forwards, " forwards, but ",
                              one.backwards, " backwards and gradients of weights ", one.weights,
                              " times; must be ", backwards, " of each"));
  }
}

}  // namespace trireme::schedule
