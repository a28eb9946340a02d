// SPDX-License-Identifier: Apache-2.0
#include "stage_room.h"

#include "memory/offload.h"
#include "memory/rank.h"
#include "values/lookup.h"

#include <algorithm>
#include <cmath>

namespace trireme::partition {

StageRoom::StageRoom(const Question& question) : question_(question), least_(1) {
  for (int k = 0; k + 1 < question.stages; ++k) links_.push_back(question.platform.link(k, k + 1));
  const std::vector<chain::RankSpec>& ranks = question.platform.ranks;
  for (const chain::RankSpec& rank : ranks)
    alike_.push_back(static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin()));
  for (const chain::LayerCost& layer : question.chain.layers) {
    static_.add(layer.parameters + layer.gradients + layer.optimizer);
    optimizer_.add(layer.optimizer);
    forward_.add(layer.forward);
    work_.add(layer.forward + layer.backward);
    const chain::Retape again = layer.again();
    const Bytes tape =
        std::min(layer.tape + layer.backward_transient, again.tape + again.backward_transient);
    const int i = static_cast<int>(least_.size());
    least_.push_back(question.chain.output(i - 1) + tape + layer.output);
  }
}

Bytes StageRoom::whole(int stage) const {
  const Bytes memory = memory_for_programs(question_, stage);
  return memory == Bytes(0) ? kUnlimited : memory;
}

Bytes StageRoom::memory(int stage, chain::LayerRange layers) const {
  const Bytes all = whole(stage);
  return all == kUnlimited ? kUnlimited : all - fixed(stage, layers) - waiting(layers.last);
}

bool StageRoom::may_fit(int stage, chain::LayerRange layers) const {
  return memory(stage, layers) >=
         *std::max_element(least_.begin() + layers.first, least_.begin() + layers.last + 1);
}

// With GPipe every micro-batch's loss is read before the first backward, and its gradient of x[L]
// stays with the kept set; replay knows one micro-batch only.
Bytes StageRoom::waiting(int last) const {
  if (question_.schedule != "gpipe" || last < layers()) return Bytes(0);
  return question_.chain.output(last) * (question_.micro_batches - 1);
}

// Like simulate::channel_bytes(): input and gradient of every cut next to the rank.
Bytes StageRoom::fixed(int stage, chain::LayerRange layers) const {
  Bytes bytes = static_.of(layers) - offloaded(stage, layers) - streamed(stage, layers).saved;
  if (question_.shared_bytes) bytes -= shared(layers).all();
  const auto channel = [&](int boundary) {
    const double size = static_cast<double>(question_.chain.output(boundary).count());
    return Bytes(static_cast<Bytes::rep>(std::ceil(2 * question_.platform.channel_buffers * size)));
  };
  if (layers.first > 1) bytes += channel(layers.first - 1);
  if (layers.last < question_.chain.length()) bytes += channel(layers.last);
  return bytes;
}

const chain::SharedBytes& StageRoom::shared(chain::LayerRange layers) const {
  return once(shared_, layers, [&] {
    return question_.shared_bytes({{layers.first, layers.last}});
  });
}

Bytes StageRoom::offloaded(int stage, chain::LayerRange layers) const {
  if (has_no_copies(question_)) return Bytes(0);
  Bytes state = optimizer_.of(layers);
  if (question_.shared_bytes) state -= shared(layers).optimizer;
  return offloaded_optimizer(question_, stage, state, streamed(stage, layers).outside);
}

StreamedBytes StageRoom::streamed(int stage, chain::LayerRange layers) const {
  if (question_.streamed && question_.streamed->empty()) return {};
  const std::size_t ends = at(question_.chain.length() + 1);
  const std::size_t key =
      (at(alike_[at(stage)]) * ends + at(layers.first)) * ends + at(layers.last);
  return once(streamed_, key, [&] {
    return streamed_bytes(question_, streamed_of(question_, stage, {{layers.first, layers.last}}));
  });
}

StageQuestion StageRoom::asked(int stage, chain::LayerRange layers, bool copies) const {
  StageQuestion asked{
      .layers = layers, .memory = memory(stage, layers), .in_flight = in_flight(question_, stage)};
  if (const chain::RankSpec& own = rank(stage); copies && own.can_copy()) {
    // All micro-batches in flight share the offload tier.
    const Bytes of_state =
        chain::state_room(question_.chain, optimizer_.of(layers), offloaded(stage, layers));
    asked.link =
        solve::HostLink{.out = own.out / own.speed,
                        .in = own.in / own.speed,
                        .capacity = offload_room(own, of_state + streamed(stage, layers).outside) /
                                    asked.in_flight};
  }
  return asked;
}

Seconds StageRoom::transfer(const chain::LinkSpec& link, int last) const {
  return link.rate > BytesPerSecond(0) ? question_.chain.output(last) / link.rate : Seconds(0);
}

}  // namespace trireme::partition
