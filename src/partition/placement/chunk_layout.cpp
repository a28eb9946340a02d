// SPDX-License-Identifier: Apache-2.0
#include "chunk_layout.h"

#include "cut/least_cut.h"
#include "memory/rank.h"
#include "stage/recompute_early.h"

#include "trireme/core/text.h"
#include "trireme/simulate/channels.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace trireme::partition {
namespace {

/// The second part of a backward, what the first leaves for it, and what that needs beside what is
/// held before it.
struct Deferred {
  Seconds weights;
  Bytes pending, input_transient;
};

Deferred deferred_of(const chain::Chain& chain, chain::LayerRange layers) {
  Deferred sum;
  for (int i = layers.first; i <= layers.last; ++i) {
    const chain::SplitBackward parts = chain.layer(i).in_parts();
    sum.weights += parts.weights;
    sum.pending += parts.pending;
    sum.input_transient = std::max(sum.input_transient, parts.input_transient);
  }
  return sum;
}

/// By chunk of a rank, micro-batches that it holds something of.
using Counts = std::vector<int>;

bool is_within(const Counts& one, const Counts& other) {
  return std::equal(one.begin(), one.end(), other.begin(), std::less_equal<>());
}

/// What these passes hold at once, without what is within others.
std::vector<Counts> most_held(const std::vector<schedule::Pass>& passes,
                              const std::vector<int>& chunks) {
  std::vector<Counts> most;
  Counts now(chunks.size());
  for (const schedule::Pass pass : passes) {
    const auto place = static_cast<std::size_t>(
        std::find(chunks.begin(), chunks.end(), pass.chunk) - chunks.begin());
    if (schedule::gives_weights(pass.kind)) --now[place];
    if (pass.kind != schedule::Pass::Kind::kForward) continue;
    ++now[place];
    if (std::any_of(most.begin(), most.end(),
                    [&](const Counts& other) { return is_within(now, other); }))
      continue;
    std::erase_if(most, [&](const Counts& other) { return is_within(other, now); });
    most.push_back(now);
  }
  return most;
}

/// Whether it offloads x[layer], by itself or with its tape.
bool offloads(const program::StageProgram& program, int layer) {
  return std::any_of(program.forward.begin(), program.forward.end(), [&](const auto& action) {
    return (action.op == program::Op::kOffload || action.op == program::Op::kOffloadTape) &&
           action.layer == layer;
  });
}

/// Room and rates of a rank.
struct Rank {
  Bytes memory;
  std::optional<solve::HostLink> link;  ///< in seconds of speed 1
};

/// One choice for each chunk of a rank: the least time for a micro-batch of each, of which copies
/// each way take no more than passes. All of `held`, and what the working chunk needs beyond it, is
/// within the memory, what is offloaded of it within the tier. Empty if there are none.
std::vector<const Prepared*> least_time(const std::vector<std::vector<const Prepared*>>& choices,
                                        const std::vector<Counts>& held, const Rank& rank) {
  std::vector<const Prepared*> chosen, best;
  Seconds least = kNever;
  const auto is_within = [&](const Counts& counts) {
    Bytes beyond, kept, moved;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      beyond = std::max(beyond, chosen[i]->needs.beyond_kept());
      kept += chosen[i]->needs.kept * counts[i];
      moved += chosen[i]->needs.moved * counts[i];
    }
    return kept + beyond <= rank.memory && (!rank.link || moved <= rank.link->capacity);
  };
  const std::function<void(Seconds, Bytes)> choose = [&](Seconds passes, Bytes moved) {
    Seconds time = passes;
    if (rank.link) time = std::max({time, moved / rank.link->out, moved / rank.link->in});
    if (time >= least) return;
    if (chosen.size() < choices.size()) {
      for (const Prepared* const choice : choices[chosen.size()]) {
        chosen.push_back(choice);
        choose(passes + choice->needs.time(), moved + choice->needs.moved);
        chosen.pop_back();
      }
    } else if (std::all_of(held.begin(), held.end(), is_within)) {
      least = time;
      best = chosen;
    }
  };
  choose(Seconds(0), Bytes(0));
  return best;
}

}  // namespace

std::string chunk_policy(const Question& question) {
  return question.solver == "auto" || question.solver == "madpipe" ? "joint" : question.solver;
}

ChunkLayout::ChunkLayout(const StageRoom& room, StageOptions& options,
                         schedule::Placement placement, Cut cut)
    : room_(room), options_(options), placement_(std::move(placement)), cut_(std::move(cut)) {
  for (int rank = 0; rank < schedule::ranks_of(placement_); ++rank)
    memory_.push_back(memory_for_programs(rank));
}

chain::LayerRange ChunkLayout::layers(int chunk) const {
  return layers_of(cut_, chunk);
}

LayerRuns ChunkLayout::runs_of(int rank) const {
  LayerRuns runs;
  for (int chunk = 0; chunk < chunks(); ++chunk)
    if (placement_[at(chunk)] == rank) runs.emplace_back(layers(chunk).first, layers(chunk).last);
  return runs;
}

// All micro-batches in flight share the offload tier.
std::optional<solve::HostLink> ChunkLayout::link_of(int rank) const {
  const Question& question = room_.question();
  const chain::RankSpec& own = question.platform.ranks[at(rank)];
  if (!own.can_copy() || memory_[at(rank)] == kUnlimited) return std::nullopt;
  const LayerRuns runs = runs_of(rank);
  const Bytes state = chain::state_room(question.chain, optimizer_state(question, runs),
                                        offloaded_optimizer(question, rank, runs));
  const Bytes weights = streamed_bytes(question, streamed_of(question, rank, runs)).outside;
  return solve::HostLink{.out = own.out / own.speed,
                         .in = own.in / own.speed,
                         .capacity = offload_room(own, state + weights)};
}

Bytes ChunkLayout::memory_for_programs(int rank) const {
  const Bytes whole = room_.whole(rank);
  if (whole == kUnlimited) return whole;
  const Question& question = room_.question();
  const LayerRuns runs = runs_of(rank);
  std::vector<int> rank_of_layer{placement_.front()};
  for (int chunk = 0; chunk < chunks(); ++chunk) {
    const auto [first, last] = layers(chunk);
    rank_of_layer.insert(rank_of_layer.end(), at(last - first + 1), placement_[at(chunk)]);
  }
  return whole - fixed_bytes(question, rank, runs).held -
         simulate::channel_bytes(question.chain, question.platform, rank_of_layer, rank);
}

ChunkLayout::Programs ChunkLayout::keep_all() {
  Programs found;
  for (int chunk = 0; chunk < chunks(); ++chunk)
    found.push_back(
        &options_.several(layers(chunk), kUnlimited, 1, StageOptions::How::kQuick).back());
  return found;
}

bool ChunkLayout::can_offload() const {
  for (int rank = 0; std::cmp_less(rank, memory_.size()); ++rank)
    if (link_of(rank)) return true;
  return false;
}

std::optional<ChunkLayout::Programs> ChunkLayout::programs(const schedule::Order& order,
                                                           StageOptions::How how, Offload offload,
                                                           const std::vector<Bytes>& less) {
  Programs found(cut_.size(), nullptr);
  for (std::size_t rank = 0; rank < order.size(); ++rank)
    if (!add_programs(rank, order[rank], how, offload, memory_[rank] - less[rank], found))
      return std::nullopt;
  return found;
}

// The next chunk of the same rank takes the value where it is.
bool ChunkLayout::leaves_what_is_shared(int chunk, const program::StageProgram& program) const {
  const int rank = placement_[at(chunk)];
  const bool follows = chunk > 0 && placement_[at(chunk - 1)] == rank;
  const bool is_followed = chunk + 1 < chunks() && placement_[at(chunk + 1)] == rank;
  return !(follows && offloads(program, program.first_layer - 1)) &&
         !(is_followed && offloads(program, program.last_layer));
}

bool ChunkLayout::add_programs(std::size_t rank, const std::vector<schedule::Pass>& passes,
                               StageOptions::How how, Offload offload, Bytes memory,
                               Programs& found) {
  std::vector<int> of_rank;
  for (int chunk = 0; chunk < chunks(); ++chunk)
    if (std::cmp_equal(placement_[at(chunk)], rank)) of_rank.push_back(chunk);
  const std::vector<Counts> most = most_held(passes, of_rank);
  const std::optional<solve::HostLink> link =
      offload == Offload::kMay ? link_of(static_cast<int>(rank)) : std::nullopt;
  std::vector<std::vector<const Prepared*>> choices;
  for (std::size_t i = 0; i < of_rank.size(); ++i) {
    int count = 1;
    for (const Counts& counts : most) count = std::max(count, counts[i]);
    std::vector<const Prepared*>& some = choices.emplace_back();
    for (const Prepared& one : options_.several(layers(of_rank[i]), memory, count, how))
      some.push_back(&one);
    if (link)
      for (const Prepared& one : options_.several(layers(of_rank[i]), memory, count, how, link))
        if (leaves_what_is_shared(of_rank[i], one.program)) some.push_back(&one);
    if (some.empty()) return false;
  }
  const std::vector<const Prepared*> best = least_time(choices, most, {memory, link});
  if (best.empty()) return false;
  for (std::size_t i = 0; i < of_rank.size(); ++i) found[at(of_rank[i])] = best[i];
  return true;
}

plan::Infeasible ChunkLayout::lack(const std::vector<int>& in_flight) const {
  plan::Infeasible most;
  Bytes least_lack = -kUnlimited;
  for (std::size_t rank = 0; rank < memory_.size(); ++rank) {
    if (memory_[rank] == kUnlimited) continue;
    Bytes kept, beyond;
    std::vector<std::string> runs;
    chain::LayerRange widest{1, 1};
    for (int chunk = 0; chunk < chunks(); ++chunk) {
      if (std::cmp_not_equal(placement_[at(chunk)], rank)) continue;
      const int count = in_flight[at(chunk)];
      runs.push_back(range_text(layers(chunk).first, layers(chunk).last));
      const Bytes least = options_.least_memory(layers(chunk), count);
      const Prepared* const leanest =
          options_.fastest(layers(chunk), least, count, StageOptions::How::kQuick);
      const Bytes each = leanest != nullptr ? leanest->needs.kept : least / count;
      const Bytes more = leanest != nullptr ? leanest->needs.beyond_kept() : Bytes(0);
      kept += each * count;
      if (more >= beyond) widest = layers(chunk);
      beyond = std::max(beyond, more);
    }
    const Bytes lack = kept + beyond - memory_[rank];
    if (lack <= least_lack) continue;
    least_lack = lack;
    const Bytes budget = room_.question().platform.ranks[rank].memory;
    most = {.rank = static_cast<int>(rank),
            .first_layer = widest.first,
            .last_layer = widest.last,
            .needed = budget + lack,
            .available = budget,
            .least_budget = budget + lack,
            .where = concat("its layers ", enumerated(runs),
                            " together, with the programs that need least")};
  }
  return most;
}

// Where layers are recomputed, a backward of the input leaves more for the second part than was
// kept before it: such a chunk's stay whole.
Seconds ChunkLayout::weights_of(const Prepared& prepared, int chunk) const {
  const Question& question = room_.question();
  const Deferred deferred = deferred_of(question.chain, layers(chunk));
  const bool streams = !question.streamed || !question.streamed->empty();
  if (!question.splits_backward || streams || deferred.pending > prepared.needs.kept)
    return Seconds(0);
  return deferred.weights / room_.speed(placement_[at(chunk)]);
}

std::vector<bool> ChunkLayout::split(const Programs& programs) const {
  std::vector<bool> split;
  for (int chunk = 0; chunk < chunks(); ++chunk)
    split.push_back(weights_of(*programs[at(chunk)], chunk) > Seconds(0));
  return split;
}

schedule::Workload ChunkLayout::workload(const Programs& programs,
                                         const std::vector<Bytes>& less) const {
  const Question& question = room_.question();
  schedule::Workload workload{.placement = placement_, .micro_batches = question.micro_batches};
  for (int chunk = 0; chunk < chunks(); ++chunk) {
    const Prepared& one = *programs[at(chunk)];
    const int rank = placement_[at(chunk)];
    const double speed = room_.speed(rank);
    const Seconds weights = weights_of(one, chunk);
    const bool is_split = weights > Seconds(0);
    const Deferred deferred = deferred_of(question.chain, layers(chunk));
    const Bytes more = one.needs.beyond_kept();
    const Bytes gradient = question.chain.output(cut_[at(chunk)]);
    workload.chunks.push_back(
        {.forward = one.needs.forward / speed,
         .backward = one.needs.backward / speed - weights,
         .weights = weights,
         .ahead = ahead(question.chain, one.program) / speed,
         .kept = one.needs.kept,
         .pending = is_split ? deferred.pending : Bytes(0),
         .forward_more = more,
         .backward_more = is_split ? std::max(more, gradient + deferred.input_transient) : more});
    if (chunk + 1 == chunks()) break;
    const int next = placement_[at(chunk + 1)];
    workload.messages.push_back(
        rank == next
            ? Seconds(0)
            : question.platform.link(rank, next).time(question.chain.output(cut_[at(chunk)])));
  }
  if (std::all_of(memory_.begin(), memory_.end(), [](Bytes one) { return one == kUnlimited; }))
    return workload;
  for (std::size_t rank = 0; rank < memory_.size(); ++rank)
    workload.room.push_back(std::max(memory_[rank] - less[rank], Bytes(0)));
  return workload;
}

std::optional<Simulated> ChunkLayout::judge(const Programs& programs, const schedule::Order& order,
                                            const std::string& schedule) const {
  std::vector<program::StageProgram> moved;
  for (int chunk = 0; chunk < chunks(); ++chunk)
    moved.push_back(program::moved_to(programs[at(chunk)]->program, layers(chunk).first));
  return judged(room_.question(), chunk_policy(room_.question()), std::move(moved),
                {.ranks = placement_, .order = order, .schedule = schedule});
}

}  // namespace trireme::partition
