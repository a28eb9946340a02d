// Draws a program as a grid of passes, a row per rank and a column per time slot.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/program/action.h"
#include "trireme/schedule/slots.h"

#include <algorithm>
#include <map>
#include <set>

namespace trireme::program {
namespace {

using schedule::NumberedPass;
using schedule::PassList;
using schedule::PlacedPass;
using Kind = schedule::Pass::Kind;

struct Chunk {
  int rank = 0;
  int first_layer = 1, last_layer = 1;
};

std::vector<Chunk> chunks_of(const Program& program, const std::vector<int>& ends);

/// Last layers of contiguous layers on one rank.
std::vector<int> ends_of_runs(const Program& program);

/// The passes of one rank in the order in which its actions complete them.
PassList passes_of(const Program& program, int rank, const std::vector<int>& chunk_of_layer,
                   const std::vector<Chunk>& chunks);

std::string cell(const NumberedPass& pass, bool with_chunk);

}  // namespace

std::string grid(const Program& program, std::vector<int> ends) {
  if (ends.empty()) ends = ends_of_runs(program);
  const std::vector<Chunk> chunks = chunks_of(program, ends);
  const int ranks = static_cast<int>(program.ranks.size());
  std::vector<int> chunk_of_layer(static_cast<std::size_t>(program.layers) + 1, 0);
  std::vector<int> chunks_on(program.ranks.size(), 0);
  for (std::size_t k = 0; k < chunks.size(); ++k) {
    ++chunks_on[static_cast<std::size_t>(chunks[k].rank)];
    for (int i = chunks[k].first_layer; i <= chunks[k].last_layer; ++i)
      chunk_of_layer[static_cast<std::size_t>(i)] = static_cast<int>(k);
  }
  std::vector<PassList> lists;
  for (int rank = 0; rank < ranks; ++rank)
    lists.push_back(passes_of(program, rank, chunk_of_layer, chunks));

  const auto placed = schedule::place(lists, ranks).ranks;
  std::size_t slots = 0;
  std::size_t width = 2;
  std::vector<std::vector<std::string>> cells(placed.size());
  for (std::size_t rank = 0; rank < placed.size(); ++rank) {
    for (const PlacedPass& pass : placed[rank]) {
      cells[rank].resize(static_cast<std::size_t>(pass.begin), "..");
      cells[rank].push_back(cell(pass.pass, chunks_on[rank] > 1));
      width = std::max(width, cells[rank].back().size());
    }
    slots = std::max(slots, cells[rank].size());
  }
  std::string text;
  for (std::size_t rank = 0; rank < cells.size(); ++rank) {
    cells[rank].resize(slots, "..");
    std::string line = concat(rank, " |");
    for (const std::string& entry : cells[rank])
      line += " " + entry + std::string(width - entry.size(), ' ');
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

namespace {

std::vector<int> ends_of_runs(const Program& program) {
  if (program.rank_of_layer.size() != static_cast<std::size_t>(program.layers) + 1)
    throw InputError(concat("a program of ", program.layers, " layers with ranks for ",
                            program.rank_of_layer.size(),
                            " outputs, must be one more than layers"));
  std::vector<int> ends;
  for (int layer = 1; layer <= program.layers; ++layer) {
    const auto at = static_cast<std::size_t>(layer);
    if (layer == program.layers || program.rank_of_layer[at + 1] != program.rank_of_layer[at])
      ends.push_back(layer);
  }
  return ends;
}

std::vector<Chunk> chunks_of(const Program& program, const std::vector<int>& ends) {
  std::vector<Chunk> chunks;
  int first = 1;
  for (const int last : ends) {
    const int rank = program.rank_of_layer.at(static_cast<std::size_t>(last));
    if (rank < 0 || static_cast<std::size_t>(rank) >= program.ranks.size())
      throw InputError(concat("layer ", last, " is on rank ", rank, " of ", program.ranks.size()));
    chunks.push_back({rank, first, last});
    first = last + 1;
  }
  return chunks;
}

PassList passes_of(const Program& program, int rank, const std::vector<int>& chunk_of_layer,
                   const std::vector<Chunk>& chunks) {
  using ChunkAndMicroBatch = std::pair<int, int>;
  const std::vector<Action>& actions = program.ranks[static_cast<std::size_t>(rank)];
  const auto chunk_of = [&](const Action& action) {
    return chunk_of_layer[static_cast<std::size_t>(action.layer)];
  };
  const auto is_of_layer = [&](const Action& action) {
    return action.layer >= 1 && action.layer <= program.layers;
  };
  std::map<ChunkAndMicroBatch, std::size_t> last_of_weights;
  for (std::size_t i = 0; i < actions.size(); ++i)
    if (actions[i].op == Op::kBackwardWeights && is_of_layer(actions[i]))
      last_of_weights[{chunk_of(actions[i]), actions[i].micro_batch}] = i;

  PassList list{rank, {}};
  std::set<ChunkAndMicroBatch> forwards;  // later ones are recomputation
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Action& action = actions[i];
    if (!is_of_layer(action)) continue;
    const int chunk = chunk_of(action);
    const Chunk& own = chunks[static_cast<std::size_t>(chunk)];
    const auto weights = last_of_weights.find({chunk, action.micro_batch});
    if (is_forward(action.op) && action.layer == own.last_layer &&
        forwards.emplace(chunk, action.micro_batch).second)
      list.passes.push_back({{Kind::kForward, chunk}, action.micro_batch});
    if (is_backward(action.op) && action.layer == own.first_layer)
      list.passes.push_back(
          {{weights == last_of_weights.end() ? Kind::kBackward : Kind::kBackwardInput, chunk},
           action.micro_batch});
    if (weights != last_of_weights.end() && weights->second == i)
      list.passes.push_back({{Kind::kBackwardWeights, chunk}, action.micro_batch});
  }
  return list;
}

std::string cell(const NumberedPass& pass, bool with_chunk) {
  return concat(with_chunk ? std::to_string(pass.pass.chunk) : "", schedule::letter(pass.pass.kind),
                pass.micro_batch);
}

}  // namespace
}  // namespace trireme::program
