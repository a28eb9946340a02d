// SPDX-License-Identifier: Apache-2.0
#include "sized_chains.h"

#include "trireme/core/text.h"
#include "trireme/partition/shape.h"

#include <algorithm>
#include <iterator>

namespace trireme::prepare {
namespace {

/// Longest passes of a layer that is measured: they are run several times.
constexpr Seconds kLongestLayer{1};

bool is_cheap(const chain::Chain& chain, Bytes memory);

}  // namespace

void SizedChains::measure_ends(const std::vector<int>& sizes, Bytes memory) {
  measure(sizes.front());
  if (sizes.size() == 1) return;
  const auto last = std::find_if(sizes.rbegin(), std::prev(sizes.rend(), 2),
                                 [&](int size) { return is_cheap(at(size), memory); });
  measure(*last);
}

void SizedChains::measure(int micro_batch) {
  config::JobSpec sized = job_;
  sized.train.micro_batch = micro_batch;
  if (context_.channel.rank() == 0) out_ << "micro-batches of " << micro_batch << ": ";
  measured_[micro_batch] = measured_chain(sized, model_, lean_tapes_, context_, out_);
}

chain::Chain SizedChains::at(int micro_batch) const {
  auto above = measured_.lower_bound(micro_batch);
  if (above != measured_.end() && above->first == micro_batch) return above->second.chain;
  if (measured_.size() == 1)
    return partition::scaled_chain(measured_.begin()->second.chain, measured_.begin()->first,
                                   micro_batch);
  if (above == measured_.begin()) ++above;
  if (above == measured_.end()) --above;
  const auto below = std::prev(above);
  return partition::chain_between({below->first, below->second.chain},
                                  {above->first, above->second.chain}, micro_batch);
}

std::string SizedChains::sizes_text() const {
  std::vector<std::string> sizes;
  for (const auto& [size, chain] : measured_) sizes.push_back(std::to_string(size));
  return enumerated(sizes);
}

namespace {

bool is_cheap(const chain::Chain& chain, Bytes memory) {
  for (int i = 1; i <= chain.length(); ++i) {
    const chain::LayerCost& layer = chain.layer(i);
    const Bytes alone = layer.parameters + layer.gradients + layer.optimizer + chain.output(i - 1) +
                        layer.tape + layer.output +
                        std::max(layer.tape_transient, layer.backward_transient);
    if (layer.forward + layer.backward > kLongestLayer) return false;
    if (memory > Bytes(0) && alone > memory) return false;
  }
  return true;
}

}  // namespace
}  // namespace trireme::prepare
