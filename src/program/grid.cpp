// Draws a program as a grid of passes, a row per rank and a column per time slot.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/program/action.h"
#include "trireme/schedule/slots.h"

#include <algorithm>
#include <set>

namespace trireme::program {
namespace {

using schedule::NumberedPass;
using schedule::PassList;
using schedule::PlacedPass;
using Kind = schedule::Pass::Kind;

/// A stage: contiguous layers of one rank.
struct StageLayers {
  int rank = 0;
  int first_layer = 1, last_layer = 1;
};

std::vector<StageLayers> stages_of(const Program& program);

/// The passes of one rank in the order in which its actions complete them.
PassList passes_of(const Program& program, int rank, const std::vector<int>& stage_of_layer,
                   const std::vector<StageLayers>& stages);

std::string cell(const NumberedPass& pass, bool with_stage);

}  // namespace

std::string grid(const Program& program) {
  const std::vector<StageLayers> stages = stages_of(program);
  const int ranks = static_cast<int>(program.ranks.size());
  std::vector<int> stage_of_layer(static_cast<std::size_t>(program.layers) + 1, 0);
  std::vector<int> stages_on(program.ranks.size(), 0);
  for (std::size_t k = 0; k < stages.size(); ++k) {
    ++stages_on[static_cast<std::size_t>(stages[k].rank)];
    for (int i = stages[k].first_layer; i <= stages[k].last_layer; ++i)
      stage_of_layer[static_cast<std::size_t>(i)] = static_cast<int>(k);
  }
  std::vector<PassList> lists;
  for (int rank = 0; rank < ranks; ++rank)
    lists.push_back(passes_of(program, rank, stage_of_layer, stages));

  const auto placed = schedule::place(lists, ranks).ranks;
  std::size_t slots = 0;
  std::size_t width = 2;
  std::vector<std::vector<std::string>> cells(placed.size());
  for (std::size_t rank = 0; rank < placed.size(); ++rank) {
    for (const PlacedPass& pass : placed[rank]) {
      cells[rank].resize(static_cast<std::size_t>(pass.begin), "..");
      cells[rank].push_back(cell(pass.pass, stages_on[rank] > 1));
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

std::vector<StageLayers> stages_of(const Program& program) {
  std::vector<StageLayers> stages;
  if (program.rank_of_layer.size() != static_cast<std::size_t>(program.layers) + 1)
    throw InputError(concat("a program of ", program.layers, " layers with ranks for ",
                            program.rank_of_layer.size(),
                            " outputs, must be one more than layers"));
  for (int i = 1; i <= program.layers; ++i) {
    const int rank = program.rank_of_layer[static_cast<std::size_t>(i)];
    if (rank < 0 || static_cast<std::size_t>(rank) >= program.ranks.size())
      throw InputError(concat("layer ", i, " is on rank ", rank, " of ", program.ranks.size()));
    if (!stages.empty() && stages.back().rank == rank) {
      stages.back().last_layer = i;
    } else {
      stages.push_back({rank, i, i});
    }
  }
  return stages;
}

PassList passes_of(const Program& program, int rank, const std::vector<int>& stage_of_layer,
                   const std::vector<StageLayers>& stages) {
  PassList list{rank, {}};
  std::set<std::pair<int, int>> forwards;  // (stage, micro-batch): later ones are recomputation
  for (const Action& action : program.ranks[static_cast<std::size_t>(rank)]) {
    if (action.layer < 1 || action.layer > program.layers) continue;
    const int stage = stage_of_layer[static_cast<std::size_t>(action.layer)];
    const StageLayers& own = stages[static_cast<std::size_t>(stage)];
    if (is_forward(action.op) && action.layer == own.last_layer &&
        forwards.emplace(stage, action.micro_batch).second)
      list.passes.push_back({{Kind::kForward, stage}, action.micro_batch});
    if (is_backward(action.op) && action.layer == own.first_layer)
      list.passes.push_back({{Kind::kBackward, stage}, action.micro_batch});
  }
  return list;
}

std::string cell(const NumberedPass& pass, bool with_stage) {
  return concat(with_stage ? std::to_string(pass.pass.chunk) : "",
                pass.pass.kind == Kind::kForward ? "F" : "B", pass.micro_batch);
}

}  // namespace
}  // namespace trireme::program
