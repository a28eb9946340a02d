// SPDX-License-Identifier: Apache-2.0
#include "trireme/simulate/channels.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <utility>

namespace trireme::simulate {

Bytes channel_bytes(const chain::Chain& chain, const chain::Platform& platform,
                    const std::vector<int>& rank_of_layer, int rank) {
  std::map<std::pair<int, int>, Bytes> largest;  // by the ranks below and above
  for (std::size_t i = 1; i + 1 < rank_of_layer.size(); ++i) {
    const int below = rank_of_layer[i], above = rank_of_layer[i + 1];
    if (below == above || (below != rank && above != rank)) continue;
    Bytes& size = largest[{below, above}];
    size = std::max(size, chain.output(static_cast<int>(i)));
  }
  double bytes = 0;
  for (const auto& [ranks, size] : largest)
    bytes += std::ceil(2 * platform.channel_buffers * static_cast<double>(size.count()));
  return Bytes(static_cast<Bytes::rep>(bytes));
}

}  // namespace trireme::simulate
