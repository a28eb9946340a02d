// SPDX-License-Identifier: Apache-2.0
#include "trireme/runtime/warm_up.h"

#include "trireme/model/taped.h"

#include <ATen/ATen.h>

namespace trireme::runtime {
namespace {

constexpr std::int64_t kWidth = 64;

/// A product with a bias, which may take another library's path, and one without.
class Products final : public model::Layer {
 public:
  Products()
      : first_(add_parameter("first", at::ones({kWidth, kWidth}))),
        bias_(add_parameter("bias", at::zeros({kWidth}))),
        second_(add_parameter("second", at::ones({kWidth, kWidth}))) {}

  model::Values forward(const model::Values& input, const model::Context& /*context*/) override {
    return {at::linear(at::linear(input[0], first_, bias_), second_)};
  }

 private:
  at::Tensor first_, bias_, second_;
};

}  // namespace

void warm_up(const device::Place& place) {
  Products layer;
  model::move_to(place.device(), layer);
  const model::Values input = place.fetch({at::ones({kWidth, kWidth})});
  for (const model::Precision precision :
       {model::Precision::kFloat32, model::Precision::kBfloat16}) {
    model::Tape tape = model::taped_forward(
        layer, input, {}, precision, model::InputGradient::kNeeded, model::TapeUse::kMayMove);
    const model::Values gradients{at::ones_like(tape.outputs.at(0))};
    model::backward(std::move(tape), gradients);
  }
  const auto marks = place.make_marks();
  marks->begin();
  marks->set();
  marks->settle();
}

}  // namespace trireme::runtime
