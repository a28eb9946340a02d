// Values between layers have the strides that they would have after a message.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/model/taped.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace trireme::model {
namespace {

/// Gives the exponential, and its input, with dimensions exchanged.
class Transposes final : public Layer {
 public:
  Values forward(const Values& input, const Context&) override {
    return {input.at(0).exp().t(), input.at(0).t()};
  }
};

TEST(Values, AreContiguousWhateverALayerGives) {
  Transposes layer;
  const at::Tensor x = at::arange(6, at::kFloat).reshape({2, 3});
  const Values untaped = untaped_forward(layer, {x}, Context{}, Precision::kFloat32);
  const Tape tape =
      taped_forward(layer, {x}, Context{}, Precision::kFloat32, InputGradient::kNeeded);

  for (const Values& values : {untaped, tape.outputs}) {
    EXPECT_TRUE(at::equal(values.at(0), x.exp().t()));
    EXPECT_TRUE(at::equal(values.at(1), x.t()));
    for (const at::Tensor& value : values) EXPECT_TRUE(value.is_contiguous());
  }
}

}  // namespace
}  // namespace trireme::model
