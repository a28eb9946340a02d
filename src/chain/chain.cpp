// SPDX-License-Identifier: Apache-2.0
#include "trireme/chain/chain.h"

#include "trireme/chain/cost_fields.h"
#include "trireme/chain/read_time.h"
#include "trireme/core/digest.h"
#include "trireme/core/text.h"
#include "trireme/io/terminal.h"

#include <algorithm>
#include <map>
#include <type_traits>
#include <utility>

namespace trireme::chain {
namespace {

constexpr std::string_view kFormat = "trireme-chain/1";
constexpr Seconds kMaxTime{1e9};
constexpr Joules kMaxEnergy{1e12};
constexpr Bytes kMaxSum{std::int64_t{1} << 62};

constexpr std::string_view kStateLine = "state_line_bytes", kRetapeTime = "retape_s",
                           kRetapeBytes = "retape_bytes", kWeightsTime = "backward_weights_s",
                           kFrozen = "frozen_bytes", kTrained = "trained_bytes",
                           kTrainedGradients = "trained_gradient_bytes",
                           kTapeStays = "tape_stays_bytes";

/// Visitor that reads the fields of a cost and remembers their nodes.
class FieldReader {
 public:
  explicit FieldReader(io::MapReader& map) : map_(map) {}

  void operator()(const CostField& field, Seconds& value) {
    if (find(field)) value = read_time(*node(field.key));
  }
  void operator()(const CostField& field, Joules& value) {
    if (find(field)) value = Joules(node(field.key)->number(0, kMaxEnergy.count()));
  }
  void operator()(const CostField& field, Bytes& value) {
    if (find(field)) value = node(field.key)->bytes();
  }
  /// Node of a field that was visited; nullptr if it is not in the file.
  const io::Node* node(std::string_view key) const {
    const auto found = nodes_.find(key);
    return found == nodes_.end() ? nullptr : &found->second;
  }
  /// Throws InputError for a field of walk_retape() or walk_split() without their time.
  void require_beside(std::string_view time, const CostField& field) const {
    if (node(field.key) != nullptr && node(time) == nullptr)
      node(field.key)->fail(concat("needs ", time, ", too"));
  }

 private:
  bool find(const CostField& field) {
    if (field.in == CostField::In::kEveryFile)
      nodes_.emplace(field.key, map_.required(field.key));
    else if (const auto found = map_.optional(field.key))
      nodes_.emplace(field.key, *found);
    return nodes_.contains(field.key);
  }

  io::MapReader& map_;
  std::map<std::string_view, io::Node> nodes_;
};

/// Adds the layer's sizes to `sum`; throws InputError when that gets too large.
LayerCost read_layer(const io::Node& node, int number, Bytes& sum);
std::optional<Retape> read_retape(FieldReader& reader, const LayerCost& layer);
std::optional<SplitBackward> read_split(FieldReader& reader, const LayerCost& layer);
/// Throws InputError where weights that can be streamed are more than the layer has.
void require_parts(const FieldReader& reader, LayerCost& layer);
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

Bytes state_room(const Chain& chain, Bytes state, Bytes offloaded) {
  if (offloaded == Bytes(0)) return offloaded;
  return std::max(offloaded, std::min(state, offloaded + chain.state_line));
}

Bytes step_room(const Chain& chain, Bytes offloaded) {
  if (offloaded == Bytes(0) || chain.state_line == Bytes(0)) return Bytes(0);
  return chain.state_line * kLeastParts + kUpdateScratch;
}

Bytes weights_window(std::vector<OffloadWeights> layers, int at_once) {
  std::erase_if(layers, [](const OffloadWeights& one) { return one.all() == Bytes(0); });
  const auto here = layers.begin() + std::min(std::ssize(layers), std::ptrdiff_t{at_once});
  std::partial_sort(
      layers.begin(), here, layers.end(),
      [](const OffloadWeights& a, const OffloadWeights& b) { return a.all() > b.all(); });
  Bytes window, leaving;
  for (auto layer = layers.begin(); layer != layers.end(); ++layer) {
    if (layer < here) window += layer->all();
    leaving = std::max(leaving, layer->leaving());
  }
  // Where all are on the device at a time, none is copied out.
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
    walk(
        [](const CostField&, auto& value) {
          value += std::remove_reference_t<decltype(value)>(0);  // -0 becomes 0
        },
        layer);
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
  // A part of another number is counted with that.
  const auto count = [&](const CostField& field, const auto& value) {
    if constexpr (std::is_same_v<decltype(value), const Bytes&>)
      if (field.in != CostField::In::kSomeFiles && field.key != kRetapeBytes) add(sum, value, node);
  };
  FieldReader reader(map);
  walk_whole(reader, layer);
  walk_whole(count, std::as_const(layer));
  layer.retape = read_retape(reader, layer);
  if (layer.retape) walk_retape(count, std::as_const(*layer.retape));
  layer.split = read_split(reader, layer);
  if (layer.split) walk_split(count, std::as_const(*layer.split));
  require_parts(reader, layer);
  map.finish();
  return layer;
}

void require_parts(const FieldReader& reader, LayerCost& layer) {
  const auto require = [&](std::string_view key, Bytes part, Bytes whole, std::string_view name) {
    const io::Node* const node = reader.node(key);
    if (node != nullptr && part > whole)
      node->fail(concat("is ", node->found(), ", must be at most ", name, ", ", whole.count(),
                        ": it is a part of them"));
  };
  require(kFrozen, layer.frozen, layer.parameters, "parameter_bytes");
  require(kTrained, layer.trained, layer.parameters, "parameter_bytes");
  require(kTapeStays, layer.tape_stays, layer.tape, "tape_bytes");
  require(kTrainedGradients, layer.trained_gradients, layer.gradients, "gradient_bytes");
  const io::Node* const gradients = reader.node(kTrainedGradients);
  if (gradients != nullptr && layer.trained == Bytes(0))
    gradients->fail(concat("needs ", kTrained, " above 0, too"));
  if (gradients == nullptr && layer.trained > Bytes(0)) layer.trained_gradients = layer.gradients;
  if (layer.trained > Bytes(0) && layer.frozen > Bytes(0))
    reader.node(kTrained)->fail(
        concat("is given together with ", kFrozen,
               ": of a layer with frozen weights only these can be streamed; leave it out"));
}

/// The limit of a field of a retape, in words; see `capped`.
std::string_view most_of(std::string_view key) {
  if (key == kRetapeBytes) return "tape_bytes";
  return key == "retape_transient_bytes" ? "tape_transient_bytes + tape_bytes - retape_bytes"
                                         : "backward_transient_bytes + tape_bytes - retape_bytes";
}

std::optional<Retape> read_retape(FieldReader& reader, const LayerCost& layer) {
  LayerCost whole = layer;
  whole.retape.reset();
  Retape retape = whole.again();
  walk_retape(reader, retape);
  const auto require = [&](const CostField& field, const auto& value, const auto& most) {
    reader.require_beside(kRetapeTime, field);
    if (value <= most) return;
    const io::Node& node = *reader.node(field.key);
    if constexpr (std::is_same_v<decltype(value), const Bytes&>)
      node.fail(concat("is ", node.found(), ", must be at most ", most_of(field.key), ", ",
                       most.count(),
                       ": it is a part of a forward, which never needs more than all of it; leave "
                       "the retape out if this one does"));
    else
      node.fail(concat("is ", node.found(), ", must be at most forward_s, ", to_text(most.count()),
                       ": it is a part of a forward"));
  };
  const Retape most = capped(retape, layer);
  walk_retape(require, std::as_const(retape), most);
  return reader.node(kRetapeTime) != nullptr ? std::optional(retape) : std::nullopt;
}

std::optional<SplitBackward> read_split(FieldReader& reader, const LayerCost& layer) {
  // Missing numbers are as large as they can be.
  SplitBackward split{.weights = {},
                      .pending = layer.tape + layer.output,
                      .input_transient = layer.backward_transient + layer.tape + layer.output,
                      .weights_transient = layer.gradients};
  walk_split(reader, split);
  const auto require = [&](const CostField& field, const auto&) {
    reader.require_beside(kWeightsTime, field);
  };
  walk_split(require, std::as_const(split));
  const io::Node* const time = reader.node(kWeightsTime);
  if (time == nullptr) return std::nullopt;
  if (split.weights > layer.backward)
    time->fail(concat("is ", time->found(), ", must be at most backward_s, ",
                      to_text(layer.backward.count()), ": it is a part of a backward"));
  return split;
}

void add(Bytes& sum, Bytes size, const io::Node& node) {
  if (size > kMaxSum - sum)
    node.fail("brings the sum of all sizes to more than 4 EiB, must be less");
  sum += size;
}

std::string layer_line(const LayerCost& layer) {
  std::string line = concat("  - {name: ", io::yaml_text(layer.name));
  const auto write = [&](const CostField& field, const auto& value) {
    if (is_left_out(field, value.count() == 0, layer)) return;
    line += concat(", ", field.key, ": ", text_of(value));
  };
  walk(write, layer);
  return line + "}\n";
}

}  // namespace
}  // namespace trireme::chain
