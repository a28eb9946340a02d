// Which rank sends values to which: what a transport that connects pairs has to know at its start.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace trireme::comm {

/// One direction of one stream.
struct Link {
  int from = 0;
  int to = 0;
  Stream stream = Stream::kOutputs;

  bool operator==(const Link&) const = default;
};

/// A channel that connects pairs of ranks one by one.
class LinkedChannel : public Channel {
 public:
  /// Every rank that a link names, with the same `links` in the same order, no transfer under way.
  /// Sets up those that are not there yet.
  virtual void connect(std::span<const Link> links) = 0;
};

/// Between neighbours of `ranks`, both ways, each with its stream; in the order in which every rank
/// sets them up.
inline std::vector<Link> neighbour_links(std::span<const int> ranks, Stream down, Stream up) {
  std::vector<Link> links;
  for (std::size_t i = 0; i + 1 < ranks.size(); ++i) {
    links.push_back({ranks[i], ranks[i + 1], down});
    links.push_back({ranks[i + 1], ranks[i], up});
  }
  return links;
}

/// Those of one pipeline, whose ranks are named from its first stage to its last: outputs go down,
/// gradients come up.
inline std::vector<Link> pipeline_links(std::span<const int> ranks) {
  return neighbour_links(ranks, Stream::kOutputs, Stream::kGradients);
}

/// Those of `more` that are not there yet.
inline void add_links(std::vector<Link>& links, std::span<const Link> more) {
  for (const Link& link : more) {
    if (std::find(links.begin(), links.end(), link) == links.end()) links.push_back(link);
  }
}

}  // namespace trireme::comm
