// SPDX-License-Identifier: Apache-2.0
#include "trireme/profile/text.h"

#include "trireme/core/text.h"
#include "trireme/io/node.h"

#include <algorithm>

namespace trireme::profile {
namespace {

/// Layers that cost the same: what the first one costs, and how many there are.
struct Group {
  chain::LayerCost cost;
  int count = 0;
};

std::vector<Group> groups_of(const chain::Chain& chain);
chain::LayerCost sums_of(const chain::Chain& chain);
std::vector<std::string> row_of(const std::string& name, const chain::LayerCost& cost);
/// The fields of weights that may leave, if there are any.
std::string may_leave_json(const chain::LayerCost& layer);
/// Fields of a retape, if there is one.
std::string retape_json(const chain::LayerCost& layer);
std::string split_json(const chain::LayerCost& layer);

}  // namespace

std::string to_table(const chain::Chain& chain) {
  std::vector<std::vector<std::string>> rows{
      {"layer", "forward", "backward", "output", "tape", "forward +", "tape +", "backward +",
       "parameters", "gradients", "optimizer", "update", "retape", "weights", "pending"}};
  for (const Group& group : groups_of(chain)) {
    rows.push_back(
        row_of(group.count == 1 ? group.cost.name : concat(group.cost.name, " x ", group.count),
               group.cost));
  }
  rows.push_back(row_of(concat("all ", chain.length()), sums_of(chain)));
  for (std::size_t transient = 5; transient <= 7; ++transient) rows.back()[transient] = "";
  return table(rows) +
         concat("input ", to_text(chain.input),
                ". '+' is what a pass needs for a moment beside what it leaves; the sums count "
                "every layer. 'retape' is a second forward of which only the tape is wanted; "
                "'weights' the "
                "part of a backward that may come later, for which 'pending' is held.\n");
}

std::string to_json(const chain::Chain& chain) {
  std::vector<std::string> layers;
  for (const chain::LayerCost& layer : chain.layers) {
    layers.push_back(concat(
        "{\"name\": ", io::json_text(layer.name), ", \"forward_s\": ",
        to_text(layer.forward.count()), ", \"backward_s\": ", to_text(layer.backward.count()),
        ", \"output_bytes\": ", layer.output.count(), ", \"tape_bytes\": ", layer.tape.count(),
        ", \"forward_transient_bytes\": ", layer.forward_transient.count(),
        ", \"tape_transient_bytes\": ", layer.tape_transient.count(),
        ", \"backward_transient_bytes\": ", layer.backward_transient.count(),
        ", \"parameter_bytes\": ", layer.parameters.count(), ", \"gradient_bytes\": ",
        layer.gradients.count(), ", \"optimizer_bytes\": ", layer.optimizer.count(),
        ", \"update_s\": ", to_text(layer.update.count()), may_leave_json(layer),
        retape_json(layer), split_json(layer), "}"));
  }
  return concat("{\"format\": \"trireme-chain/1\", \"name\": ", io::json_text(chain.name),
                ", \"input_bytes\": ", chain.input.count(), ", \"layers\": [", join(layers, ", "),
                "]}");
}

namespace {

std::vector<Group> groups_of(const chain::Chain& chain) {
  std::vector<Group> groups;
  for (const chain::LayerCost& layer : chain.layers) {
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
      chain::LayerCost renamed = layer;
      renamed.name = group.cost.name;
      return renamed == group.cost;
    });
    if (same == groups.end()) {
      groups.push_back({layer, 1});
    } else {
      ++same->count;
    }
  }
  return groups;
}

chain::LayerCost sums_of(const chain::Chain& chain) {
  chain::LayerCost sums;
  Seconds again{0};
  for (const chain::LayerCost& layer : chain.layers) {
    sums.forward += layer.forward;
    sums.backward += layer.backward;
    sums.output += layer.output;
    sums.tape += layer.tape;
    sums.parameters += layer.parameters;
    sums.gradients += layer.gradients;
    sums.optimizer += layer.optimizer;
    sums.update += layer.update;
    again += layer.again().time;
    if (!layer.split) continue;
    if (!sums.split) sums.split.emplace();
    sums.split->weights += layer.split->weights;
    sums.split->pending += layer.split->pending;
  }
  sums.retape = chain::Retape{.time = again};
  return sums;
}

std::vector<std::string> row_of(const std::string& name, const chain::LayerCost& cost) {
  return {name,
          to_text(cost.forward),
          to_text(cost.backward),
          to_text(cost.output),
          to_text(cost.tape),
          to_text(cost.forward_transient),
          to_text(cost.tape_transient),
          to_text(cost.backward_transient),
          to_text(cost.parameters),
          to_text(cost.gradients),
          to_text(cost.optimizer),
          to_text(cost.update),
          to_text(cost.again().time),
          cost.split ? to_text(cost.split->weights) : "-",
          cost.split ? to_text(cost.split->pending) : "-"};
}

std::string may_leave_json(const chain::LayerCost& layer) {
  if (layer.frozen > Bytes(0)) return concat(", \"frozen_bytes\": ", layer.frozen.count());
  if (layer.trained == Bytes(0)) return "";
  return concat(", \"trained_bytes\": ", layer.trained.count(),
                ", \"trained_gradient_bytes\": ", layer.trained_gradients.count());
}

std::string retape_json(const chain::LayerCost& layer) {
  if (!layer.retape) return "";
  return concat(
      ", \"retape_s\": ", to_text(layer.retape->time.count()),
      ", \"retape_bytes\": ", layer.retape->tape.count(),
      ", \"retape_transient_bytes\": ", layer.retape->tape_transient.count(),
      ", \"retape_backward_transient_bytes\": ", layer.retape->backward_transient.count());
}

std::string split_json(const chain::LayerCost& layer) {
  if (!layer.split) return "";
  return concat(", \"backward_weights_s\": ", to_text(layer.split->weights.count()),
                ", \"pending_bytes\": ", layer.split->pending.count(),
                ", \"backward_input_transient_bytes\": ", layer.split->input_transient.count(),
                ", \"backward_weights_transient_bytes\": ", layer.split->weights_transient.count());
}

}  // namespace
}  // namespace trireme::profile
