// SPDX-License-Identifier: Apache-2.0
#include "trireme/program/updates.h"

#include "trireme/program/weight_uses.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>

namespace trireme::program {
namespace {

using Actions = std::vector<Action>;

/// The index after the action and after the send of its result, if there is one.
std::size_t after(const Actions& actions, std::size_t action) {
  const std::size_t next = action + 1;
  return next < actions.size() && is_send(actions[next].op) ? next + 1 : next;
}

/// Indices in a rank's list, before which actions are inserted.
using Places = std::vector<std::size_t>;

/// Where the updates of a rank are inserted: one per layer, in the order in which they are made.
/// Layers that lack a pass, which no program may have, are left out.
class UpdatePlaces {
 public:
  UpdatePlaces(const Actions& actions, const std::vector<int>& layers, UpdatePlace place);

  const std::vector<int>& layers() const { return layers_; }
  UpdatePlace place() const { return place_; }
  std::size_t alone(std::size_t k) const { return places_[k]; }
  /// At most `most` places, spread over the passes between this update and its neighbour.
  Places spread(std::size_t k, std::size_t most) const;

 private:
  bool is_backward() const { return place_ == UpdatePlace::kInBackward; }

  const Actions& actions_;
  std::vector<int> layers_;
  UpdatePlace place_;
  Places places_;
};

UpdatePlaces::UpdatePlaces(const Actions& actions, const std::vector<int>& layers,
                           UpdatePlace place)
    : actions_(actions), place_(place) {
  std::map<int, std::size_t> of_layer;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Action& action = actions[i];
    if (is_backward() && action.op == Op::kBackward) of_layer[action.layer] = after(actions, i);
    if (!is_backward() && is_forward(action.op)) of_layer.emplace(action.layer, i);
  }
  std::vector<std::pair<std::size_t, int>> places;
  for (const int layer : layers)
    if (const auto found = of_layer.find(layer); found != of_layer.end())
      places.emplace_back(found->second, layer);
  std::sort(places.begin(), places.end());
  for (const auto& [found, layer] : places) {
    places_.push_back(found);
    layers_.push_back(layer);
  }
}

Places UpdatePlaces::spread(std::size_t k, std::size_t most) const {
  const std::size_t from = is_backward() || k == 0 ? places_[k] : places_[k - 1];
  const std::size_t to = !is_backward() || k + 1 == places_.size() ? places_[k] : places_[k + 1];
  Places all;
  for (std::size_t i = from; i < to; ++i)
    if (is_backward() ? actions_[i].op == Op::kBackward : is_forward(actions_[i].op))
      all.push_back(std::min(after(actions_, i), to));
  if (all.empty()) return {places_[k]};
  Places some;
  const std::size_t count = std::min(all.size(), most);
  for (std::size_t part = 1; part <= count; ++part)
    some.push_back(all[part * all.size() / count - 1]);
  return some;
}

bool is_update(const Action& action) {
  return action.op == Op::kUpdate;
}

/// Adds the copies of state: it is copied in from the first backward of the last micro-batch on, or
/// from the first action where the updates are of the step before.
Actions with_state(Actions actions, UpdatePlace place) {
  const auto last = std::find_if(actions.rbegin(), actions.rend(), is_update);
  if (last == actions.rend()) return actions;
  auto begins = actions.begin();
  if (place == UpdatePlace::kInBackward) {
    int micro_batch = -1;
    for (auto at = actions.begin(); !is_update(*at); ++at) {
      if (!is_backward(at->op) || at->micro_batch <= micro_batch) continue;
      micro_batch = at->micro_batch;
      begins = at;
    }
  }
  const auto first = begins - actions.begin();
  actions.insert(last.base(), {Op::kAwaitState});
  actions.insert(actions.begin() + first, {Op::kStateIn});
  return actions;
}

Actions with_updates(const Actions& actions, const UpdatePlaces& updates, bool spreads,
                     int micro_batches) {
  std::vector<std::pair<std::size_t, Action>> added;
  for (std::size_t k = 0; k < updates.layers().size(); ++k) {
    const Places places = spreads ? updates.spread(k, static_cast<std::size_t>(micro_batches))
                                  : Places{updates.alone(k)};
    for (std::size_t part = 0; part < places.size(); ++part)
      added.emplace_back(places[part],
                         Action{Op::kUpdate, updates.layers()[k], static_cast<int>(part)});
  }
  std::stable_sort(added.begin(), added.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  Actions result;
  auto next = added.begin();
  for (std::size_t i = 0; i <= actions.size(); ++i) {
    for (; next != added.end() && next->first == i; ++next) result.push_back(next->second);
    if (i < actions.size()) result.push_back(actions[i]);
  }
  return with_state(std::move(result), updates.place());
}

}  // namespace

const std::vector<std::string>& update_place_names() {
  static const std::vector<std::string> names{"at_end", "in_backward", "in_forward"};
  return names;
}

std::string_view name(UpdatePlace place) {
  return update_place_names().at(static_cast<std::size_t>(place));
}

std::optional<UpdatePlace> update_place_named(std::string_view name) {
  const std::vector<std::string>& names = update_place_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<UpdatePlace>(found - names.begin());
}

std::vector<int> updated_layers(const std::vector<int>& streamed, UpdatePlace place, int at_once) {
  // With so few of them all stay on the device.
  if (place == UpdatePlace::kAtEnd || std::cmp_less_equal(streamed.size(), at_once)) return {};
  const int left_out = place == UpdatePlace::kInForward ? at_once : 0;
  return {streamed.begin(), streamed.end() - left_out};
}

Program with_updates(Program program, const std::vector<std::vector<int>>& layers,
                     UpdatePlace place, int at_once) {
  for (std::size_t rank = 0; rank < layers.size(); ++rank) {
    if (layers[rank].empty()) continue;
    Actions& actions = program.ranks.at(rank);
    actions = with_updates(actions, UpdatePlaces(actions, layers[rank], place),
                           at_once > kLeastAtOnce, program.micro_batches);
  }
  return program;
}

int LayerUpdates::parts(int layer) const {
  const auto found = std::find_if(layers.begin(), layers.end(),
                                  [&](const Layer& one) { return one.layer == layer; });
  return found == layers.end() ? 0 : found->parts;
}

LayerUpdates layer_updates(const std::vector<Action>& actions) {
  LayerUpdates updates;
  std::map<int, std::size_t> places;  // of layers
  bool has_backward = false;
  for (const Action& action : actions) {
    if (is_backward(action.op)) has_backward = true;
    if (!is_update(action)) continue;
    if (updates.layers.empty())
      updates.place = has_backward ? UpdatePlace::kInBackward : UpdatePlace::kInForward;
    const auto [place, is_new] = places.emplace(action.layer, updates.layers.size());
    if (is_new) updates.layers.push_back({.layer = action.layer, .parts = 0});
    ++updates.layers[place->second].parts;
  }
  return updates;
}

}  // namespace trireme::program
