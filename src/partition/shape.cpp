// SPDX-License-Identifier: Apache-2.0
#include "trireme/partition/shape.h"

#include "stage_policy.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/partition/tried.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

namespace trireme::partition {
namespace {

int rank_of(const Shape& shape, int replica, int stage) {
  return replica * shape.stages + stage;
}
chain::RankSpec weaker(const chain::RankSpec& a, const chain::RankSpec& b);
/// No step is faster: ranks do all the work, and a micro-batch is in one layer at a time.
Seconds shortest_step(Question question);

}  // namespace

std::vector<Shape> shapes_of(const ShapeQuestion& question) {
  ensure(question.ranks >= 1 && question.batch >= 1, "there are ranks and examples");
  if (question.platform.ranks.size() < static_cast<std::size_t>(question.ranks))
    throw InputError(concat("ranks: found ", question.ranks, ", but the platform has ",
                            question.platform.ranks.size()));
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

ShapeAnswer choose_shape(const ShapeQuestion& question) {
  std::map<int, chain::Chain> chains;
  ShapeAnswer answer;
  for (const Shape& shape : shapes_of(question)) {
    const auto [entry, is_new] = chains.try_emplace(shape.micro_batch);
    if (is_new) entry->second = question.chain_at(shape.micro_batch);
    if (shape.stages > entry->second.length()) continue;
    TriedShape tried{.shape = shape, .answer = {}};
    tried.least = shortest_step(question_of(question, shape, entry->second));
    answer.tried.push_back(std::move(tried));
  }
  if (answer.tried.empty())
    throw InputError(concat("stages: no number of them up to the chain's layers makes ",
                            question.ranks, " ranks with what is fixed"));
  std::stable_sort(answer.tried.begin(), answer.tried.end(),
                   [](const TriedShape& a, const TriedShape& b) { return a.least < b.least; });
  for (std::size_t i = 0; i < answer.tried.size(); ++i) {
    TriedShape& tried = answer.tried[i];
    if (answer.chosen && tried.least >= answer.tried[*answer.chosen].step()) continue;
    const chain::Chain& chain = chains.at(tried.shape.micro_batch);
    const Question asked = question_of(question, tried.shape, chain);
    Tried found = try_to(question.solver, [&] { return partition::plan(asked); });
    tried.refused = std::move(found.refused);
    if (found.infeasible() != nullptr) tried.answer = *found.infeasible();
    if (found.plan() != nullptr) tried.answer = *found.plan();
    if (tried.plan() == nullptr) continue;
    tried.reduce = reduce_time(question, tried.shape, chain, *tried.plan());
    if (!answer.chosen || tried.step() < answer.tried[*answer.chosen].step()) answer.chosen = i;
  }
  const auto is_refused = [](const TriedShape& tried) { return !tried.refused.empty(); };
  if (std::all_of(answer.tried.begin(), answer.tried.end(), is_refused))
    throw InputError(answer.tried.front().refused);
  return answer;
}

std::size_t leanest(const ShapeAnswer& answer) {
  const auto lacks = [&](const TriedShape& tried) {
    if (!tried.answer) return kUnlimited;
    const auto& why = std::get<plan::Infeasible>(*tried.answer);
    return why.needed - why.available;
  };
  const auto best = std::min_element(
      answer.tried.begin(), answer.tried.end(),
      [&](const TriedShape& a, const TriedShape& b) { return lacks(a) < lacks(b); });
  return static_cast<std::size_t>(best - answer.tried.begin());
}

Question question_of(const ShapeQuestion& question, const Shape& shape, chain::Chain chain) {
  Question asked;
  asked.chain = std::move(chain);
  asked.stages = shape.stages;
  asked.micro_batches = shape.micro_batches;
  asked.replicas = shape.replicas;
  asked.schedule = question.schedule;
  asked.solver = question.solver;
  asked.cut = question.cut;
  asked.slots = question.slots;
  asked.shared_bytes = question.shared_bytes;
  asked.optimizer_copies = question.optimizer_copies;
  asked.streamed = streamed_layers_of(question.weights, asked.chain);
  asked.weights_at_once = std::nullopt;
  asked.group = 1;
  if (shape.stages == 1)
    asked.group = question.group ? std::optional(std::min(*question.group, shape.micro_batches))
                                 : std::nullopt;
  if (question.shard_optimizer) shard_optimizer(asked);
  const chain::Platform& whole = question.platform;
  asked.platform.channel_buffers = whole.channel_buffers;
  asked.platform.default_link = whole.default_link;
  for (int k = 0; k < shape.stages; ++k) {
    chain::RankSpec rank = whole.ranks[static_cast<std::size_t>(k)];
    for (int j = 1; j < shape.replicas; ++j)
      rank = weaker(rank, whole.ranks[static_cast<std::size_t>(rank_of(shape, j, k))]);
    asked.platform.ranks.push_back(rank);
    if (whole.overrides.empty()) continue;
    // Also of ranks that are no neighbours: with several stages on a rank they talk, too.
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
  chain::Chain scaled = chain;
  scale(scaled.input);
  for (chain::LayerCost& layer : scaled.layers) {
    layer.forward = layer.forward * by;
    layer.backward = layer.backward * by;
    for (Bytes* const size : {&layer.output, &layer.tape, &layer.forward_transient,
                              &layer.tape_transient, &layer.backward_transient})
      scale(*size);
    if (!layer.retape) continue;
    layer.retape->time = layer.retape->time * by;
    for (Bytes* const size :
         {&layer.retape->tape, &layer.retape->tape_transient, &layer.retape->backward_transient})
      scale(*size);
    layer.retape = chain::capped(*layer.retape, layer);  // every size was rounded up by itself
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
  const auto bytes = [&](Bytes from, Bytes to) {
    return Bytes(static_cast<Bytes::rep>(
        std::ceil(between(static_cast<double>(from.count()), static_cast<double>(to.count())))));
  };
  chain::Chain chain = a.chain;
  chain.input = bytes(a.chain.input, b.chain.input);
  for (std::size_t i = 0; i < chain.layers.size(); ++i) {
    const chain::LayerCost &from = a.chain.layers[i], &to = b.chain.layers[i];
    chain::LayerCost& layer = chain.layers[i];
    for (Seconds chain::LayerCost::*const time :
         {&chain::LayerCost::forward, &chain::LayerCost::backward, &chain::LayerCost::update})
      layer.*time = Seconds(between((from.*time).count(), (to.*time).count()));
    for (Bytes chain::LayerCost::*const size :
         {&chain::LayerCost::output, &chain::LayerCost::tape, &chain::LayerCost::forward_transient,
          &chain::LayerCost::tape_transient, &chain::LayerCost::backward_transient,
          &chain::LayerCost::parameters, &chain::LayerCost::gradients,
          &chain::LayerCost::optimizer})
      layer.*size = bytes(from.*size, to.*size);
    layer.retape.reset();
    if (!from.retape || !to.retape) continue;
    const chain::Retape &less = *from.retape, &more = *to.retape;
    // Beyond the two, lines may cross what bounds them between.
    layer.retape = chain::capped(
        {.time = Seconds(between(less.time.count(), more.time.count())),
         .tape = bytes(less.tape, more.tape),
         .tape_transient = bytes(less.tape_transient, more.tape_transient),
         .backward_transient = bytes(less.backward_transient, more.backward_transient)},
        layer);
  }
  return chain;
}

Seconds reduce_time(const ShapeQuestion& question, const Shape& shape, const chain::Chain& chain,
                    const plan::Plan& plan) {
  Seconds longest{0};
  const int others = shape.replicas - 1;
  for (const plan::StagePlan& stage : plan.stages) {
    Bytes there, back;
    for (int i = stage.program.first_layer; i <= stage.program.last_layer; ++i) {
      const chain::LayerCost& layer = chain.layer(i);
      there += layer.gradients;
      back += plan.optimizer_shards > 1 ? chain::trained_weights(layer) : layer.gradients;
    }
    Seconds slowest{0};
    for (int j = 0; j < shape.replicas && others > 0; ++j) {
      const int next = (j + 1) % shape.replicas;
      const chain::LinkSpec link =
          question.platform.link(rank_of(shape, j, stage.rank), rank_of(shape, next, stage.rank));
      slowest = std::max(slowest, chain::half_of_a_sum(link, shape.replicas, there) +
                                      chain::half_of_a_sum(link, shape.replicas, back));
    }
    longest = std::max(longest, slowest);
  }
  return longest;
}

namespace {

// A memory of 0 is one without a limit.
chain::RankSpec weaker(const chain::RankSpec& a, const chain::RankSpec& b) {
  constexpr Bytes kNoLimit(0);
  const bool first = b.memory == kNoLimit || (a.memory != kNoLimit && a.memory < b.memory);
  return {.memory = first ? a.memory : b.memory,
          .host = std::min(a.host, b.host),
          .disk = std::min(a.disk, b.disk),
          .out = std::min(a.out, b.out),
          .in = std::min(a.in, b.in),
          .speed = std::min(a.speed, b.speed)};
}

Seconds shortest_step(Question question) {
  const Seconds of_all = ideal_step(question);
  std::vector<chain::RankSpec>& ranks = question.platform.ranks;
  std::iter_swap(ranks.begin(),
                 std::max_element(ranks.begin(), ranks.end(),
                                  [](const auto& a, const auto& b) { return a.speed < b.speed; }));
  question.stages = question.micro_batches = 1;
  return std::max(of_all, ideal_step(question));
}

}  // namespace
}  // namespace trireme::partition
