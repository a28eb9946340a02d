// SPDX-License-Identifier: Apache-2.0
#include "trireme/chain/layer_range.h"

#include "trireme/core/text.h"

namespace trireme::chain {

std::string layers_text(LayerRange range) {
  return concat(range.size() == 1 ? "layer " : "layers ", range_text(range.first, range.last));
}

}  // namespace trireme::chain
