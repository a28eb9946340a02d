// SPDX-License-Identifier: Apache-2.0
#include "update/drawn_masters.h"

#include "trireme/core/error.h"

#include <utility>

namespace trireme::runtime {

DrawnMasters::DrawnMasters(const Stage& stage, std::vector<int> layers)
    : stage_(stage),
      numbers_(std::move(layers)),
      built_(
          numbers_, [&stage](int number) { return stage.draw(number); },
          built_at_once(stage.device())) {}

at::Tensor DrawnMasters::of(const StageParameter& parameter) {
  if (stage_.masters() == Stage::Masters::kDevice) return parameter.value;
  if (taken_ == 0 || numbers_[taken_ - 1] != parameter.layer) {
    ensure(taken_ < numbers_.size() && numbers_[taken_] == parameter.layer,
           "masters are asked for layer by layer");
    layer_.reset();
    layer_ = built_.next();
    ++taken_;
  }
  return layer_->parameters().at(static_cast<std::size_t>(parameter.index)).value.detach();
}

}  // namespace trireme::runtime
