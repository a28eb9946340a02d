// SPDX-License-Identifier: Apache-2.0
#include "steps.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace trireme::poet {
namespace {

std::vector<std::vector<int>> inputs_with_bytes(const graph::Graph& graph);

}  // namespace

// A node needed from step t on is needed from every step between itself and t: only the last
// counts.
Steps::Steps(const graph::Graph& graph, std::vector<bool> may_be_made_again)
    : may_be_made_again_(std::move(may_be_made_again)),
      useful_(graph.nodes.size()),
      inputs_(inputs_with_bytes(graph)),
      users_(graph::users_of(graph)),
      last_useful_(graph.nodes.size(), -1) {
  for (int node = 0; node < graph.size(); ++node)
    is_source_.push_back(inputs(node).empty() && graph.node(node).transient == Bytes(0));
  for (int node = graph.size() - 1; node >= 0; --node) {
    for (const int user : users_[static_cast<std::size_t>(node)]) {
      int& last = last_useful_[static_cast<std::size_t>(node)];
      last = std::max(last, user);
      const bool is_made =
          may_be_made_again_[static_cast<std::size_t>(user)] && graph.node(user).bytes > Bytes(0);
      if (is_made) last = std::max(last, last_useful_[static_cast<std::size_t>(user)]);
    }
    if (graph.node(node).bytes == Bytes(0)) continue;
    for (int step = node + 1; step <= last_useful_[static_cast<std::size_t>(node)]; ++step) {
      useful_[static_cast<std::size_t>(step)].insert(
          useful_[static_cast<std::size_t>(step)].begin(), node);
    }
  }
}

std::vector<int> Steps::useful_by_next_use(int step) const {
  std::vector<int> nodes = useful(step);
  const auto next_use = [&](int node) {
    const std::vector<int>& users = users_[static_cast<std::size_t>(node)];
    const auto next = std::lower_bound(users.begin(), users.end(), step);
    return next == users.end() ? count() : *next;
  };
  std::stable_sort(nodes.begin(), nodes.end(),
                   [&](int a, int b) { return next_use(a) < next_use(b); });
  return nodes;
}

bool Steps::has_later_place(int step, int node, int place) const {
  const std::vector<int>& users = users_[static_cast<std::size_t>(node)];
  return std::any_of(users.begin(), users.end(), [&](int user) {
    if (user <= place || user > step) return false;
    const std::vector<int>& again = useful(step);
    return user == step ||
           (may_be_made_again(user) && std::binary_search(again.begin(), again.end(), user));
  });
}

std::vector<int> Steps::places(int step) const {
  std::vector<int> places = useful(step);
  std::erase_if(places, [this](int node) { return is_source(node) || !may_be_made_again(node); });
  places.push_back(step);
  return places;
}

namespace {

std::vector<std::vector<int>> inputs_with_bytes(const graph::Graph& graph) {
  std::vector<std::vector<int>> inputs;
  for (const graph::Node& node : graph.nodes) {
    inputs.push_back(node.inputs);
    std::erase_if(inputs.back(), [&](int input) { return graph.node(input).bytes == Bytes(0); });
  }
  return inputs;
}

}  // namespace
}  // namespace trireme::poet
