// Ranks as threads that share the GPU, messages staged through pinned memory.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/runtime/replica_sum.h"

#include "gpu.h"

#include "trireme/comm/local.h"

#include <ATen/ATen.h>

#include <vector>

namespace trireme::device {
namespace {

class GpuReplicaSum : public Gpu {};

TEST_F(GpuReplicaSum, HasTheBitsOfTheHostsOrderedSum) {
  for (const std::int64_t size : {1000, 3'000'001}) {
    std::vector<at::Tensor> addends;
    for (int rank = 0; rank < 3; ++rank) addends.push_back(at::randn({size}));
    const at::Tensor expected = (addends[0] + addends[1]) + addends[2];
    comm::run_local(3, {Seconds(60), {}}, [&](comm::Channel& control) {
      cuda().use();
      const auto channel = cuda().make_staged_channel(control);
      const at::Tensor sum = addends[static_cast<std::size_t>(control.rank())].to(on_gpu());
      runtime::sum_in_chain(*channel, std::vector{0, 1, 2}, sum, "sum");
      EXPECT_TRUE(at::equal(sum.cpu(), expected)) << "rank " << control.rank();
      channel->close();
    });
  }
}

}  // namespace
}  // namespace trireme::device
