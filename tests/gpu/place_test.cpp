// Random generators and time marks of a GPU.
// SPDX-License-Identifier: Apache-2.0
#include "gpu.h"

#include "trireme/device/marks.h"

#include <ATen/ATen.h>
#include <ATen/core/Generator.h>

namespace trireme::device {
namespace {

class GpuPlace : public Gpu {};

TEST_F(GpuPlace, GeneratorsOfOneKeyDrawTheSameAndAreOfTheDevice) {
  at::Generator first = cuda().make_generator(), second = cuda().make_generator();
  const auto draw = [&](at::Generator& from) {
    from.set_current_seed(17);
    return at::empty({1000}, at::TensorOptions(at::kFloat).device(on_gpu())).normal_(0, 1, from);
  };
  const at::Tensor expected = draw(first);
  EXPECT_TRUE(at::equal(draw(second), expected));
  EXPECT_TRUE(at::equal(draw(first), expected));
}

TEST_F(GpuPlace, MarksPassInOrderAndTakeTheTimeOfTheWorkBetween) {
  const auto marks = cuda().make_marks();
  const at::Tensor x = at::ones({4096, 4096}, at::TensorOptions(at::kFloat).device(on_gpu()));
  at::matmul(x, x);  // takes its workspace and loads its kernel
  marks->begin();
  const Marks::Mark first = marks->set();
  at::matmul(x, x);
  const Marks::Mark second = marks->set();
  for (int i = 0; i < 4; ++i) at::matmul(x, x);
  const Marks::Mark third = marks->set();
  marks->settle();
  EXPECT_LT(marks->time(first), marks->time(second));
  EXPECT_GT(marks->time(third) - marks->time(second), marks->time(second) - marks->time(first));
}

}  // namespace
}  // namespace trireme::device
