// SPDX-License-Identifier: Apache-2.0
#include "stage_shares.h"

#include "state_away.h"
#include "streamed_layers.h"
#include "update_window.h"

#include <algorithm>

namespace trireme::partition {

StageShares::StageShares(const Question& question,
                         const std::vector<program::StageProgram>& programs,
                         const std::vector<int>& ranks)
    : question_(question), ranks_(question.platform.ranks.size()) {
  std::vector<LayerRuns> runs(ranks_.size());
  for (std::size_t k = 0; k < programs.size(); ++k)
    runs[static_cast<std::size_t>(ranks[k])].emplace_back(programs[k].first_layer,
                                                          programs[k].last_layer);
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (runs[rank].empty()) continue;
    ranks_[rank].away = optimizer_away(question, static_cast<int>(rank), runs[rank]);
    ranks_[rank].all = streamed_of(question, static_cast<int>(rank), runs[rank]);
    ranks_[rank].window = update_window(question, static_cast<int>(rank), runs[rank]);
  }
}

// What a rank's stages share, the later one does not hold.
StageShares::Share StageShares::next(int rank, std::pair<int, int> layers) {
  Rank& now = ranks_[static_cast<std::size_t>(rank)];
  Share share;
  for (const int layer : now.all)
    if (layer >= layers.first && layer <= layers.second) share.streamed.push_back(layer);
  const auto totals = [&] {
    struct Totals {
      Bytes held, state;
    };
    if (now.runs.empty()) return Totals{};
    return Totals{static_bytes(question_, now.runs) - streamed_bytes(question_, now.so_far).saved,
                  optimizer_state(question_, now.runs)};
  };
  const auto before = totals();
  now.runs.push_back(layers);
  now.so_far.insert(now.so_far.end(), share.streamed.begin(), share.streamed.end());
  const auto with = totals();
  share.fixed.optimizer_away = std::min(now.away, with.state - before.state);
  now.away -= share.fixed.optimizer_away;
  share.fixed.held =
      with.held - before.held - share.fixed.optimizer_away + std::exchange(now.window, Bytes(0));
  return share;
}

}  // namespace trireme::partition
