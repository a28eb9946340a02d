// SPDX-License-Identifier: Apache-2.0
#include "trireme/chain/chain.h"

#include "read_time.h"

#include "trireme/core/digest.h"
#include "trireme/core/text.h"
#include "trireme/io/terminal.h"

#include <algorithm>
#include <array>
#include <utility>

namespace trireme::chain {
namespace {

constexpr std::string_view kFormat = "trireme-chain/1";
constexpr Seconds kMaxTime{1e9};
constexpr Bytes kMaxSum{std::int64_t{1} << 62};

using TimeField = std::pair<std::string_view, Seconds LayerCost::*>;
using SizeField = std::pair<std::string_view, Bytes LayerCost::*>;

/// What a layer costs, in the order of the file.
constexpr std::array<TimeField, 2> kTimes{
    {{"forward_s", &LayerCost::forward}, {"backward_s", &LayerCost::backward}}};
constexpr std::array<SizeField, 2> kRequiredSizes{
    {{"output_bytes", &LayerCost::output}, {"tape_bytes", &LayerCost::tape}}};
constexpr std::array<SizeField, 6> kOptionalSizes{
    {{"forward_transient_bytes", &LayerCost::forward_transient},
     {"tape_transient_bytes", &LayerCost::tape_transient},
     {"backward_transient_bytes", &LayerCost::backward_transient},
     {"parameter_bytes", &LayerCost::parameters},
     {"gradient_bytes", &LayerCost::gradients},
     {"optimizer_bytes", &LayerCost::optimizer}}};
constexpr std::string_view kStateLine = "state_line_bytes";
constexpr TimeField kUpdate{"update_s", &LayerCost::update};
constexpr std::string_view kFrozen = "frozen_bytes", kTrained = "trained_bytes",
                           kTrainedGradients = "trained_gradient_bytes";
constexpr std::string_view kRetapeTime = "retape_s";
struct RetapeSize {
  std::string_view key;
  Bytes Retape::*field;
  Bytes LayerCost::*whole;  ///< of a whole taped forward: the default
  std::string_view most;    ///< what it may be, in words; see `capped`
};
constexpr std::array<RetapeSize, 3> kRetapeSizes{
    {{"retape_bytes", &Retape::tape, &LayerCost::tape, "tape_bytes"},
     {"retape_transient_bytes", &Retape::tape_transient, &LayerCost::tape_transient,
      "tape_transient_bytes + tape_bytes - retape_bytes"},
     {"retape_backward_transient_bytes", &Retape::backward_transient,
      &LayerCost::backward_transient, "backward_transient_bytes + tape_bytes - retape_bytes"}}};

constexpr std::string_view kWeightsTime = "backward_weights_s";
struct SplitSize {
  std::string_view key;
  Bytes SplitBackward::*field;
};
constexpr std::array<SplitSize, 3> kSplitSizes{
    {{"pending_bytes", &SplitBackward::pending},
     {"backward_input_transient_bytes", &SplitBackward::input_transient},
     {"backward_weights_transient_bytes", &SplitBackward::weights_transient}}};

/// Adds the layer's sizes to `sum`; throws InputError when that gets too large to count with.
LayerCost read_layer(const io::Node& node, int number, Bytes& sum);
std::optional<Retape> read_retape(io::MapReader& map, const LayerCost& layer);
std::optional<SplitBackward> read_split(io::MapReader& map, const LayerCost& layer);
void read_outer_weights(io::MapReader& map, LayerCost& layer);
void add(Bytes& sum, Bytes size, const io::Node& node);
std::string layer_line(const LayerCost& layer);

}  // namespace

Seconds read_time(const io::Node& node) {
  const Seconds time = node.seconds();
  if (time > kMaxTime)
    node.fail(concat("is ", node.found(), ", must be at most ", to_text(kMaxTime.count()), " s"));
  return time;
}

Retape capped(Retape retape, const LayerCost& layer) {
  retape.time = std::min(retape.time, layer.forward);
  retape.tape = std::min(retape.tape, layer.tape);
  const Bytes less = layer.tape - retape.tape;
  retape.tape_transient = std::min(retape.tape_transient, layer.tape_transient + less);
  retape.backward_transient = std::min(retape.backward_transient, layer.backward_transient + less);
  return retape;
}

Chain sharded(Chain chain, int shards) {
  if (shards == 1) return chain;
  for (LayerCost& layer : chain.layers) {
    const Bytes::rep share = (layer.optimizer.count() + shards - 1) / shards;
    layer.optimizer = std::min(layer.optimizer, Bytes(share) + kShardSlack);
    layer.update = layer.update / shards;
  }
  return chain;
}

Bytes trained_weights(const LayerCost& layer) {
  return std::min(layer.gradients, layer.parameters - layer.frozen);
}

Bytes optimizer_bytes(const Chain& chain, int first, int last) {
  Bytes sum;
  for (int i = first; i <= last; ++i) sum += chain.layer(i).optimizer;
  return sum;
}

Bytes state_room(const Chain& chain, Bytes state, Bytes away) {
  if (away == Bytes(0)) return away;
  return std::max(away, std::min(state, away + chain.state_line));
}

Bytes step_room(const Chain& chain, Bytes away) {
  if (away == Bytes(0) || chain.state_line == Bytes(0)) return Bytes(0);
  return chain.state_line * kLeastParts + kUpdateScratch;
}

Bytes weights_window(std::vector<OuterWeights> layers, int at_once) {
  std::erase_if(layers, [](const OuterWeights& one) { return one.all() == Bytes(0); });
  const auto here = layers.begin() + std::min(std::ssize(layers), std::ptrdiff_t{at_once});
  std::partial_sort(layers.begin(), here, layers.end(),
                    [](const OuterWeights& a, const OuterWeights& b) { return a.all() > b.all(); });
  Bytes window, leaving;
  for (auto layer = layers.begin(); layer != layers.end(); ++layer) {
    if (layer < here) window += layer->all();
    leaving = std::max(leaving, layer->leaving());
  }
  // Where all are there at a time, none leaves.
  return std::cmp_less(at_once, layers.size()) ? window + leaving : window;
}

StateParts state_parts(const Chain& chain, Bytes window) {
  const auto usual = static_cast<int>(kLargestStateWindow / kLargestStatePart);
  const Bytes least = std::min(window, chain.state_line);
  const Bytes size = std::min(kLargestStatePart, std::max(window / usual, least));
  return {size, size == Bytes(0) ? 0 : static_cast<int>(window / size)};
}

Chain load_chain(const std::filesystem::path& file) {
  return read_chain(io::load(file, kMaxChainFile));
}

Chain read_chain(const io::Node& document) {
  io::MapReader map(document);
  map.required("format").choice({std::string(kFormat)});
  Chain chain;
  chain.name = io::name_in(map.required("name"));
  chain.input = map.required("input_bytes").bytes();
  const auto line = map.optional(kStateLine);
  const io::Node layers = map.required("layers");
  map.finish();

  const std::vector<io::Node> nodes = layers.list();
  if (nodes.empty() || nodes.size() > kMaxLayers)
    layers.fail(concat("has ", nodes.size(), " layers, must have from 1 to ", kMaxLayers));
  chain.layers.reserve(nodes.size());
  Bytes sum = chain.input;
  if (line) add(sum, chain.state_line = line->bytes(), *line);
  for (const io::Node& node : nodes)
    chain.layers.push_back(read_layer(node, chain.length() + 1, sum));
  return chain;
}

std::string to_yaml(const Chain& chain) {
  std::string text = concat("format: ", kFormat, "\nname: ", io::yaml_text(chain.name),
                            "\ninput_bytes: ", chain.input.count(), "\n");
  if (chain.state_line > Bytes(0)) text += concat(kStateLine, ": ", chain.state_line.count(), "\n");
  text += "layers:\n";
  for (const LayerCost& layer : chain.layers) text += layer_line(layer);
  return text;
}

std::string digest(const Chain& chain) {
  Chain nameless = chain;
  nameless.name.clear();
  for (LayerCost& layer : nameless.layers) {
    layer.name.clear();
    for (const auto& [key, field] : kTimes) layer.*field += Seconds(0);  // -0 becomes 0
    if (layer.retape) layer.retape->time += Seconds(0);
    if (layer.split) layer.split->weights += Seconds(0);
  }
  return trireme::digest(to_yaml(nameless));
}

namespace {

LayerCost read_layer(const io::Node& node, int number, Bytes& sum) {
  const std::string place = concat("layer ", number);
  LayerCost layer;
  layer.name = io::name_in(io::MapReader(node.called(place)).required("name"));

  io::MapReader map(node.called(concat(place, " (", layer.name, ")")));
  map.required("name");
  for (const auto& [key, field] : kTimes) layer.*field = read_time(map.required(key));
  for (const auto& [key, field] : kRequiredSizes) layer.*field = map.required(key).bytes();
  for (const auto& [key, field] : kOptionalSizes) {
    if (const auto size = map.optional(key)) layer.*field = size->bytes();
  }
  for (const auto& [key, field] : kRequiredSizes) add(sum, layer.*field, node);
  for (const auto& [key, field] : kOptionalSizes) add(sum, layer.*field, node);
  if (const auto time = map.optional(kUpdate.first)) layer.update = read_time(*time);
  layer.retape = read_retape(map, layer);
  if (layer.retape) {
    add(sum, layer.retape->tape_transient, node);
    add(sum, layer.retape->backward_transient, node);
  }
  layer.split = read_split(map, layer);
  if (layer.split)
    for (const auto& [key, field] : kSplitSizes) add(sum, (*layer.split).*field, node);
  read_outer_weights(map, layer);
  map.finish();
  return layer;
}

void read_outer_weights(io::MapReader& map, LayerCost& layer) {
  const auto part = [](const io::Node& node, Bytes whole, std::string_view name) {
    if (node.bytes() > whole)
      node.fail(concat("is ", node.found(), ", must be at most ", name, ", ", whole.count(),
                       ": it is a part of them"));
    return node.bytes();
  };
  const auto frozen = map.optional(kFrozen);
  const auto trained = map.optional(kTrained);
  const auto gradients = map.optional(kTrainedGradients);
  if (frozen) layer.frozen = part(*frozen, layer.parameters, "parameter_bytes");
  if (trained) layer.trained = part(*trained, layer.parameters, "parameter_bytes");
  if (layer.trained > Bytes(0)) layer.trained_gradients = layer.gradients;
  if (gradients) layer.trained_gradients = part(*gradients, layer.gradients, "gradient_bytes");
  if (gradients && layer.trained == Bytes(0))
    gradients->fail(concat("needs ", kTrained, " above 0 beside it"));
  if (layer.trained > Bytes(0) && layer.frozen > Bytes(0))
    trained->fail(concat("stands beside ", kFrozen,
                         ": of a layer that has frozen weights only these may leave the device; "
                         "leave it out"));
}

std::optional<Retape> read_retape(io::MapReader& map, const LayerCost& layer) {
  const auto time = map.optional(kRetapeTime);
  Retape retape;
  for (const auto& [key, field, whole, most] : kRetapeSizes) {
    const auto size = map.optional(key);
    if (size && !time) size->fail(concat("needs ", kRetapeTime, " beside it"));
    retape.*field = size ? size->bytes() : layer.*whole;
    const Bytes allowed = capped(retape, layer).*field;
    if (retape.*field > allowed)
      size->fail(concat("is ", size->found(), ", must be at most ", most, ", ", allowed.count(),
                        ": it is a part of a forward, which never needs more than all of it; leave "
                        "the retape out if this one does"));
  }
  if (!time) return std::nullopt;
  retape.time = read_time(*time);
  if (retape.time > layer.forward)
    time->fail(concat("is ", time->found(), ", must be at most forward_s, ",
                      to_text(layer.forward.count()), ": it is a part of a forward"));
  return retape;
}

std::optional<SplitBackward> read_split(io::MapReader& map, const LayerCost& layer) {
  const auto time = map.optional(kWeightsTime);
  // What is not given is as much as it can be.
  SplitBackward split{.weights = {},
                      .pending = layer.tape + layer.output,
                      .input_transient = layer.backward_transient + layer.tape + layer.output,
                      .weights_transient = layer.gradients};
  for (const auto& [key, field] : kSplitSizes) {
    const auto size = map.optional(key);
    if (size && !time) size->fail(concat("needs ", kWeightsTime, " beside it"));
    if (size) split.*field = size->bytes();
  }
  if (!time) return std::nullopt;
  split.weights = read_time(*time);
  if (split.weights > layer.backward)
    time->fail(concat("is ", time->found(), ", must be at most backward_s, ",
                      to_text(layer.backward.count()), ": it is a part of a backward"));
  return split;
}

void add(Bytes& sum, Bytes size, const io::Node& node) {
  if (size > kMaxSum - sum)
    node.fail("brings the sum of all sizes to more than 4 EiB, must be less to count with");
  sum += size;
}

std::string layer_line(const LayerCost& layer) {
  std::string line = concat("  - {name: ", io::yaml_text(layer.name));
  for (const auto& [key, field] : kTimes)
    line += concat(", ", key, ": ", to_text((layer.*field).count()));
  for (const auto& [key, field] : kRequiredSizes)
    line += concat(", ", key, ": ", (layer.*field).count());
  for (const auto& [key, field] : kOptionalSizes)
    line += concat(", ", key, ": ", (layer.*field).count());
  if (layer.update > Seconds(0))
    line += concat(", ", kUpdate.first, ": ", to_text(layer.update.count()));
  if (layer.frozen > Bytes(0)) line += concat(", ", kFrozen, ": ", layer.frozen.count());
  if (layer.trained > Bytes(0))
    line += concat(", ", kTrained, ": ", layer.trained.count(), ", ", kTrainedGradients, ": ",
                   layer.trained_gradients.count());
  if (layer.retape) {
    line += concat(", ", kRetapeTime, ": ", to_text(layer.retape->time.count()));
    for (const auto& [key, field, whole, most] : kRetapeSizes)
      line += concat(", ", key, ": ", ((*layer.retape).*field).count());
  }
  if (layer.split) {
    line += concat(", ", kWeightsTime, ": ", to_text(layer.split->weights.count()));
    for (const auto& [key, field] : kSplitSizes)
      line += concat(", ", key, ": ", ((*layer.split).*field).count());
  }
  return line + "}\n";
}

}  // namespace
}  // namespace trireme::chain
