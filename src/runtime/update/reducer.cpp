// SPDX-License-Identifier: Apache-2.0
#include "update/reducer.h"

#include "state/tensor_bytes.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/runtime/replica_sum.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <tuple>

namespace trireme::runtime {

Reducer::Reducer(comm::Channel& channel, Position position, Stage& stage, Updates updates)
    : channel_(channel),
      position_(position),
      stage_(stage),
      ties_(learn_ties()),
      shards_(channel,
              updates == Updates::kDivided ? position.replica_group() : std::vector{channel.rank()},
              stage),
      norm_(channel, position, stage, shards_, first_uses()) {}

std::vector<bool> Reducer::first_uses() const {
  std::vector<bool> counts;
  for (const StageParameter& parameter : stage_.parameters())
    counts.push_back(parameter.is_trained && is_first_use(parameter));
  return counts;
}

std::map<std::string, std::vector<Reducer::Use>> Reducer::learn_ties() const {
  std::map<std::string, std::vector<Use>> ties;
  std::ostringstream mine;
  mine.exceptions(std::ios::badbit);  // on out of memory
  for (const StageParameter& parameter : stage_.parameters()) {
    if (!parameter.tie.empty())
      mine << parameter.layer << ' ' << parameter.index << ' ' << parameter.begins << ' '
           << parameter.tie << '\n';
  }
  const std::vector<int> group = position_.pipeline_group();
  const auto all = comm::all_gather(channel_, group, mine.str(), "exchange of tied weights");
  std::map<std::string, std::pair<std::string, int>> first_values;  // digest, and its layer
  for (std::size_t r = 0; r < all.size(); ++r) {
    std::istringstream lines(all[r]);
    lines.exceptions(std::ios::badbit);
    Use use{.rank = group[r]};
    std::string tie, values;
    while (lines >> use.layer >> use.index >> values && std::getline(lines >> std::ws, tie)) {
      const auto known = first_values.emplace(tie, std::pair(values, use.layer)).first;
      if (known->second.first != values)
        throw unlike_uses(tie, concat("layer ", known->second.second), concat("layer ", use.layer));
      ties[tie].push_back(use);
    }
  }
  for (auto& [tie, uses] : ties) {
    std::sort(uses.begin(), uses.end(), [](const Use& a, const Use& b) {
      return std::tie(a.layer, a.index) < std::tie(b.layer, b.index);
    });
  }
  return ties;
}

void Reducer::reduce() {
  for (const auto& [tie, uses] : ties_) reduce_tie(tie, uses);
  if (shards_.are_several()) return shards_.sum(0);
  sum_over_replicas(channel_, position_.replica_group(), stage_.gradients().flat(),
                    "sum of gradients over replicas");
}

void Reducer::reduce(int streamed_layer) {
  if (shards_.are_several()) return shards_.sum(streamed_layer);
  sum_over_replicas(channel_, position_.replica_group(),
                    stage_.streamed_gradients(streamed_layer)->flat(),
                    "sum of streamed gradients over replicas");
}

void Reducer::reduce_tie(const std::string& tie, const std::vector<Use>& uses) {
  std::vector<at::Tensor> mine;
  for (const StageParameter& parameter : stage_.parameters()) {
    if (parameter.tie == tie && parameter.is_trained) mine.push_back(parameter.gradient);
  }
  if (mine.empty()) return;
  const std::string what = concat("gradient of the tied weight '", tie, "'");
  const int owner = uses.front().rank;
  std::set<int> others;
  for (const Use& use : uses) {
    if (use.rank != owner) others.insert(use.rank);
  }
  if (channel_.rank() != owner) {
    for (const at::Tensor& gradient : mine)
      channel_.send(bytes_of(gradient), owner, comm::Stream::kControl)->wait(what);
    channel_.receive(writable_bytes_of(mine.front()), owner, comm::Stream::kControl)->wait(what);
    return;
  }
  at::Tensor sum = mine.front();
  std::size_t own_use = 1;
  for (std::size_t u = 1; u < uses.size(); ++u) {
    if (uses[u].rank == owner) {
      sum.add_(mine.at(own_use++));
      continue;
    }
    const at::Tensor theirs = at::empty_like(sum);
    channel_.receive(writable_bytes_of(theirs), uses[u].rank, comm::Stream::kControl)->wait(what);
    sum.add_(theirs);
  }
  for (const int other : others)
    channel_.send(bytes_of(sum), other, comm::Stream::kControl)->wait(what);
}

bool Reducer::is_first_use(const StageParameter& parameter) const {
  if (parameter.tie.empty()) return true;
  const Use& first = ties_.at(parameter.tie).front();
  return first.layer == parameter.layer && first.index == parameter.index;
}

}  // namespace trireme::runtime
