// SPDX-License-Identifier: Apache-2.0
#include "trireme/profile/text.h"

#include "trireme/chain/cost_fields.h"
#include "trireme/core/text.h"

#include <algorithm>

namespace trireme::profile {
namespace {

/// Layers of equal cost: the cost of the first and their number.
struct Group {
  chain::LayerCost cost;
  int count = 0;
};

std::vector<Group> groups_of(const chain::Chain& chain);
chain::LayerCost sums_of(const chain::Chain& chain);
std::vector<std::string> row_of(const std::string& name, const chain::LayerCost& cost);
/// The rows of the table, in the order of `rows`, with joules after the times.
void add_joules(std::vector<std::vector<std::string>>& rows,
                const std::vector<chain::LayerCost>& costs);
io::Json layer_json(const chain::LayerCost& layer);

}  // namespace

std::string to_table(const chain::Chain& chain) {
  std::vector<std::vector<std::string>> rows{
      {"layer", "forward", "backward", "output", "tape", "forward +", "tape +", "backward +",
       "parameters", "gradients", "optimizer", "update", "retape", "weights", "pending"}};
  std::vector<chain::LayerCost> costs;
  for (const Group& group : groups_of(chain)) {
    costs.push_back(group.cost);
    rows.push_back(
        row_of(group.count == 1 ? group.cost.name : concat(group.cost.name, " x ", group.count),
               group.cost));
  }
  rows.push_back(row_of(concat("all ", chain.length()), sums_of(chain)));
  for (std::size_t transient = 5; transient <= 7; ++transient) rows.back()[transient] = "";
  costs.push_back(sums_of(chain));
  if (has_joules(chain)) add_joules(rows, costs);
  return table(rows) +
         concat("input ", to_text(chain.input),
                ". '+' is a pass's temporary memory, in addition to what it leaves; the sums count "
                "every layer. 'retape' is early-stop recomputation, which remakes only the tape; "
                "'weights' is the "
                "part of a backward that may be deferred, for which 'pending' is held.\n");
}

bool has_joules(const chain::Chain& chain) {
  return std::any_of(chain.layers.begin(), chain.layers.end(), [](const chain::LayerCost& layer) {
    return layer.forward_energy + layer.backward_energy > Joules(0);
  });
}

io::Json to_json(const chain::Chain& chain) {
  io::Json layers = io::Json::array();
  for (const chain::LayerCost& layer : chain.layers) layers.push_back(layer_json(layer));
  return {{"format", "trireme-chain/1"},
          {"name", chain.name},
          {"input_bytes", chain.input.count()},
          {"layers", std::move(layers)}};
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
  const auto add = [](const chain::CostField&, auto& sum, const auto& value) { sum += value; };
  for (const chain::LayerCost& layer : chain.layers) {
    if (layer.split && !sums.split) sums.split.emplace();
    chain::walk_whole(add, sums, layer);
    if (layer.split) chain::walk_split(add, *sums.split, *layer.split);
    again += layer.again().time;
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

void add_joules(std::vector<std::vector<std::string>>& rows,
                const std::vector<chain::LayerCost>& costs) {
  constexpr std::ptrdiff_t kAfterTimes = 3;
  const auto add = [](std::vector<std::string>& row, const std::vector<std::string>& two) {
    row.insert(row.begin() + kAfterTimes, two.begin(), two.end());
  };
  add(rows.front(), {"forward energy", "backward energy"});
  for (std::size_t k = 0; k < costs.size(); ++k)
    add(rows[k + 1], {to_text(costs[k].forward_energy), to_text(costs[k].backward_energy)});
}

io::Json layer_json(const chain::LayerCost& layer) {
  io::Json json{{"name", layer.name}};
  const auto write = [&](const chain::CostField& field, const auto& value) {
    const bool is_time = field.grows == chain::Grows::kUpdate;  // here 0 is a measurement, too
    if (!is_time && chain::is_left_out(field, value.count() == 0, layer)) return;
    json[std::string(field.key)] = value.count();
  };
  chain::walk(write, layer);
  return json;
}

}  // namespace
}  // namespace trireme::profile
