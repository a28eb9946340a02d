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

/// By layer from 1, the number of its run of layers on one rank.
std::vector<int> runs_of_layers(const Program& program);

/// The passes of one rank in the order in which its actions complete them.
PassList passes_of(const Program& program, int rank, const std::vector<int>& chunks);

std::string cell(const NumberedPass& pass, bool with_chunk);

}  // namespace

std::string grid(const Program& program, std::vector<int> chunks) {
  if (chunks.empty()) chunks = runs_of_layers(program);
  const int ranks = static_cast<int>(program.ranks.size());
  std::vector<std::set<int>> chunks_on(program.ranks.size());
  for (int layer = 1; layer <= program.layers; ++layer) {
    const auto at = static_cast<std::size_t>(layer);
    const int rank = program.rank_of_layer.at(at);
    if (rank < 0 || rank >= ranks)
      throw InputError(concat("layer ", layer, " is on rank ", rank, " of ", ranks));
    chunks_on[static_cast<std::size_t>(rank)].insert(chunks.at(at));
  }
  std::vector<PassList> lists;
  for (int rank = 0; rank < ranks; ++rank) lists.push_back(passes_of(program, rank, chunks));

  const auto placed = schedule::place(lists, ranks).ranks;
  std::size_t slots = 0;
  std::size_t width = 2;
  std::vector<std::vector<std::string>> cells(placed.size());
  for (std::size_t rank = 0; rank < placed.size(); ++rank) {
    for (const PlacedPass& pass : placed[rank]) {
      cells[rank].resize(static_cast<std::size_t>(pass.begin), "..");
      cells[rank].push_back(cell(pass.pass, chunks_on[rank].size() > 1));
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

std::vector<int> runs_of_layers(const Program& program) {
  if (program.rank_of_layer.size() != static_cast<std::size_t>(program.layers) + 1)
    throw InputError(concat("a program of ", program.layers, " layers with ranks for ",
                            program.rank_of_layer.size(),
                            " outputs, must be one more than layers"));
  std::vector<int> runs(program.rank_of_layer.size(), 0);
  for (std::size_t layer = 2; layer < runs.size(); ++layer)
    runs[layer] = runs[layer - 1] +
                  (program.rank_of_layer[layer] == program.rank_of_layer[layer - 1] ? 0 : 1);
  return runs;
}

PassList passes_of(const Program& program, int rank, const std::vector<int>& chunks) {
  using ChunkAndMicroBatch = std::pair<int, int>;
  const std::vector<Action>& actions = program.ranks[static_cast<std::size_t>(rank)];
  const auto chunk_of = [&](const Action& action) {
    return chunks[static_cast<std::size_t>(action.layer)];
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
    const auto at = static_cast<std::size_t>(action.layer);
    const bool is_first = at == 1 || chunks[at - 1] != chunk;
    const bool is_last = at + 1 == chunks.size() || chunks[at + 1] != chunk;
    const auto weights = last_of_weights.find({chunk, action.micro_batch});
    if (is_forward(action.op) && is_last && forwards.emplace(chunk, action.micro_batch).second)
      list.passes.push_back({{Kind::kForward, chunk}, action.micro_batch});
    if (is_backward(action.op) && is_first)
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
