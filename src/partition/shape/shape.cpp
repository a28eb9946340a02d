// SPDX-License-Identifier: Apache-2.0
#include "trireme/partition/shape.h"

#include "stage/stage_policy.h"

#include "trireme/chain/cost_fields.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

namespace trireme::partition {
namespace {

int rank_of(const Shape& shape, int replica, int stage) {
  return replica * shape.stages + stage;
}
chain::RankSpec weaker(const chain::RankSpec& a, const chain::RankSpec& b);

/// Bytes of a gradient reduction over replicas: the half that reduces, and the half that
/// distributes.
struct Summed {
  Bytes there, back;
  void add(const chain::LayerCost& layer, bool is_sharded);
};
/// Reduction time of rank k, that of its slowest replica.
Seconds sum_of_replicas(const ShapeQuestion& question, const Shape& shape, int k,
                        const Summed& summed);

}  // namespace

std::vector<Shape> shapes_of(const ShapeQuestion& question) {
  ensure(question.ranks >= 1 && question.batch >= 1, "there are ranks and examples");
  if (question.common.platform.ranks.size() < static_cast<std::size_t>(question.ranks))
    throw InputError(concat("ranks: found ", question.ranks, ", but the platform has ",
                            question.common.platform.ranks.size()));
  std::vector<Shape> shapes;
  for (int stages = 1; stages <= question.ranks; ++stages) {
    const int replicas = question.ranks / stages;
    if (stages * replicas != question.ranks || question.batch % replicas != 0) continue;
    if (stages != question.stages.value_or(stages)) continue;
    if (replicas != question.replicas.value_or(replicas)) continue;
    const int share = question.batch / replicas;
    for (int count = std::min(share, plan::kMaxMicroBatches); count >= 1; --count) {
      if (share % count != 0) continue;
      const int size = share / count;
      if (size != question.micro_batch.value_or(size)) continue;
      if (count != question.micro_batches.value_or(count)) continue;
      shapes.push_back({stages, replicas, size, count});
    }
  }
  if (shapes.empty())
    throw InputError(concat("nothing is left to choose: stages x replicas must be ", question.ranks,
                            " ranks and micro-batch size x replicas must divide the batch of ",
                            question.batch,
                            "; leave some of stages, replicas, micro-batches and their size open, "
                            "or change the batch"));
  return shapes;
}

Question question_of(const ShapeQuestion& question, const Shape& shape, chain::Chain chain) {
  Question asked = question.common;
  asked.chain = std::move(chain);
  asked.stages = shape.stages;
  asked.micro_batches = shape.micro_batches;
  asked.replicas = shape.replicas;
  asked.streamed = streamed_layers_of(question.weights, asked.chain);
  asked.weights_at_once = std::nullopt;
  if (asked.group) asked.group = std::min(*asked.group, shape.micro_batches);
  if (question.shard_optimizer) shard_optimizer(asked);
  const chain::Platform& whole = question.common.platform;
  asked.platform = {.ranks = {},
                    .default_link = whole.default_link,
                    .overrides = {},
                    .channel_buffers = whole.channel_buffers};
  for (int k = 0; k < shape.stages; ++k) {
    chain::RankSpec rank = whole.ranks[static_cast<std::size_t>(k)];
    for (int j = 1; j < shape.replicas; ++j)
      rank = weaker(rank, whole.ranks[static_cast<std::size_t>(rank_of(shape, j, k))]);
    asked.platform.ranks.push_back(rank);
    if (whole.overrides.empty()) continue;
    // Also between ranks that are not neighbours: with several stages on a rank they communicate,
    // too.
    for (int i = 0; i < k; ++i) {
      chain::LinkSpec link = whole.link(i, k);
      for (int j = 1; j < shape.replicas; ++j)
        link = slower(link, whole.link(rank_of(shape, j, i), rank_of(shape, j, k)));
      if (link != whole.default_link) asked.platform.overrides.push_back({i, k, link});
    }
  }
  return asked;
}

chain::Chain scaled_chain(const chain::Chain& chain, int measured_at, int micro_batch) {
  const double by = static_cast<double>(micro_batch) / measured_at;
  const auto scale = [by](Bytes& size) {
    size = Bytes(static_cast<Bytes::rep>(std::ceil(by * static_cast<double>(size.count()))));
  };
  const auto grow = [&](const chain::CostField& field, auto& value) {
    if (!field.grows_with_examples()) return;
    if constexpr (std::is_same_v<decltype(value), Bytes&>)
      scale(value);
    else
      value = value * by;
  };
  chain::Chain scaled = chain;
  scale(scaled.input);
  for (chain::LayerCost& layer : scaled.layers) {
    chain::walk(grow, layer);
    // Sizes were rounded up separately.
    if (layer.retape) layer.retape = chain::capped(*layer.retape, layer);
  }
  return scaled;
}

chain::Chain chain_between(const SizedChain& a, const SizedChain& b, int micro_batch) {
  ensure(a.chain.length() == b.chain.length() && a.micro_batch != b.micro_batch,
         "one model at two sizes");
  const double way =
      static_cast<double>(micro_batch - a.micro_batch) / (b.micro_batch - a.micro_batch);
  const auto between = [way](double from, double to) {
    return std::max(0.0, from + way * (to - from));
  };
  const auto on_line = [&]<class Number>(Number from, Number to) {
    const double number =
        between(static_cast<double>(from.count()), static_cast<double>(to.count()));
    if constexpr (std::is_same_v<Number, Bytes>)
      return Bytes(static_cast<Bytes::rep>(std::ceil(number)));
    else
      return Number(number);
  };
  chain::Chain chain = a.chain;
  chain.input = on_line(a.chain.input, b.chain.input);
  for (std::size_t i = 0; i < chain.layers.size(); ++i) {
    const chain::LayerCost &from = a.chain.layers[i], &to = b.chain.layers[i];
    chain::LayerCost& layer = chain.layers[i];
    if (!to.retape) layer.retape.reset();
    if (!to.split) layer.split.reset();
    chain::walk([&](const chain::CostField&, auto& value, const auto& less,
                    const auto& more) { value = on_line(less, more); },
                layer, from, to);
    // Extrapolated values may exceed their bounds.
    if (layer.retape) layer.retape = chain::capped(*layer.retape, layer);
    if (layer.split) layer.split->weights = std::min(layer.backward, layer.split->weights);
  }
  return chain;
}

Seconds reduce_time(const ShapeQuestion& question, const Shape& shape, const chain::Chain& chain,
                    const plan::Plan& plan) {
  std::vector<Summed> ranks(static_cast<std::size_t>(shape.stages));
  for (const plan::StagePlan& stage : plan.stages) {
    for (int i = stage.program.first_layer; i <= stage.program.last_layer; ++i)
      ranks[static_cast<std::size_t>(stage.rank)].add(chain.layer(i), plan.optimizer_shards > 1);
  }
  Seconds longest{0};
  for (int k = 0; k < shape.stages; ++k)
    longest =
        std::max(longest, sum_of_replicas(question, shape, k, ranks[static_cast<std::size_t>(k)]));
  return longest;
}

Seconds least_reduce_time(const ShapeQuestion& question, const Shape& shape,
                          const chain::Chain& chain) {
  Summed share;
  for (const chain::LayerCost& layer : chain.layers)
    share.add(layer, question.shard_optimizer && shape.replicas > 1);
  share.there = share.there / shape.stages;
  share.back = share.back / shape.stages;
  Seconds least = sum_of_replicas(question, shape, 0, share);
  for (int k = 1; k < shape.stages; ++k)
    least = std::min(least, sum_of_replicas(question, shape, k, share));
  return least;
}

namespace {

// A memory of 0 means no limit.
chain::RankSpec weaker(const chain::RankSpec& a, const chain::RankSpec& b) {
  constexpr Bytes kNoLimit(0);
  const bool first = b.memory == kNoLimit || (a.memory != kNoLimit && a.memory < b.memory);
  return {.memory = first ? a.memory : b.memory,
          .host = std::min(a.host, b.host),
          .disk = std::min(a.disk, b.disk),
          .out = std::min(a.out, b.out),
          .in = std::min(a.in, b.in),
          .speed = std::min(a.speed, b.speed),
          .power = {.busy = std::max(a.power.busy, b.power.busy),
                    .idle = std::max(a.power.idle, b.power.idle),
                    .copy_out = std::max(a.power.copy_out, b.power.copy_out),
                    .copy_in = std::max(a.power.copy_in, b.power.copy_in)}};
}

void Summed::add(const chain::LayerCost& layer, bool is_sharded) {
  there += layer.gradients;
  back += is_sharded ? chain::trained_weights(layer) : layer.gradients;
}

Seconds sum_of_replicas(const ShapeQuestion& question, const Shape& shape, int k,
                        const Summed& summed) {
  Seconds slowest{0};
  for (int j = 0; j < shape.replicas && shape.replicas > 1; ++j) {
    const int next = (j + 1) % shape.replicas;
    const chain::LinkSpec link =
        question.common.platform.link(rank_of(shape, j, k), rank_of(shape, next, k));
    slowest = std::max(slowest, chain::half_of_a_sum(link, shape.replicas, summed.there) +
                                    chain::half_of_a_sum(link, shape.replicas, summed.back));
  }
  return slowest;
}

}  // namespace
}  // namespace trireme::partition
