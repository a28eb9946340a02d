// Links: which rank sends to which, needed at start by a transport that connects pairs of ranks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace trireme::comm {

/// One direction of one stream between two ranks.
struct Link {
  int from = 0;
  int to = 0;
  Stream stream = Stream::kOutputs;

  bool operator==(const Link&) const = default;
};

/// A channel that connects pairs of ranks one by one.
class LinkedChannel : public Channel {
 public:
  /// Collective over every rank that a link names, with the same `links` in the same order and no
  /// transfer in progress. Sets up the links that do not exist yet.
  virtual void connect(std::span<const Link> links) = 0;
};

/// Links between neighbours of `ranks` in both directions, each with its stream; in the order in
/// which every rank sets them up.
inline std::vector<Link> neighbour_links(std::span<const int> ranks, Stream down, Stream up) {
  std::vector<Link> links;
  for (std::size_t i = 0; i + 1 < ranks.size(); ++i) {
    links.push_back({ranks[i], ranks[i + 1], down});
    links.push_back({ranks[i + 1], ranks[i], up});
  }
  return links;
}

/// Links of one pipeline; `ranks` lists its ranks from first to last stage. Outputs go down,
/// gradients come up.
inline std::vector<Link> pipeline_links(std::span<const int> ranks) {
  return neighbour_links(ranks, Stream::kOutputs, Stream::kGradients);
}

/// Appends the links of `more` that `links` does not contain yet.
inline void add_links(std::vector<Link>& links, std::span<const Link> more) {
  for (const Link& link : more) {
    if (std::find(links.begin(), links.end(), link) == links.end()) links.push_back(link);
  }
}

}  // namespace trireme::comm
