// The operators around the kernels. Who calls them has seen to it that shapes, types and alignment
// are such as the kernels take (src/model/device_kernels.h).
// SPDX-License-Identifier: Apache-2.0
#include "built_kernels.h"

#include "trireme/kernels_cuda/kernels.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <tuple>

namespace trireme::kernels {
namespace {

using Bf16 = std::uint16_t;
using Index = long long;  // the kernels'

constexpr unsigned kThreadsOfRow = 512, kThreads = 256, kThreadsOfSum = 1024;

std::mutex mutex;
std::map<int, std::unique_ptr<BuiltKernels>> built;

const BuiltKernels& kernels_of(const at::Tensor& x) {
  const std::lock_guard lock(mutex);
  return *built.at(x.device().index());
}

template <class T>
const T* read(const at::Tensor& x) {
  return static_cast<const T*>(x.const_data_ptr());
}
template <class T>
T* write(const at::Tensor& x) {
  return static_cast<T*>(x.mutable_data_ptr());
}

unsigned blocks_for(std::int64_t count, std::int64_t of_block) {
  return static_cast<unsigned>((count + of_block - 1) / of_block);
}

/// Logits [N, V] and targets int64 [N] to float32 [N].
at::Tensor log_likelihood(at::Tensor& logits, const at::Tensor& target, bool gradients) {
  const c10::cuda::CUDAGuard on_device(logits.device());
  const at::Tensor of_rows = at::empty({logits.size(0)}, logits.options().dtype(at::kFloat));
  if (logits.numel() == 0) return of_rows;
  kernels_of(logits).launch(Kernel::kLogLikelihood, dim3(static_cast<unsigned>(logits.size(0))),
                            kThreadsOfRow, write<Bf16>(logits), read<Index>(target),
                            write<float>(of_rows), Index{logits.size(1)}, int{gradients});
  return of_rows;
}

/// Parts [P, N] to `first` and `second`, in this order.
void sum_parts(const BuiltKernels& kernels, const at::Tensor& parts, const at::Tensor& first,
               const at::Tensor& second) {
  kernels.launch(Kernel::kSumParts, dim3(blocks_for(parts.size(1), 32)), kThreadsOfSum,
                 read<float>(parts), write<Bf16>(first), write<Bf16>(second),
                 static_cast<int>(parts.size(0)), Index{parts.size(1)}, Index{first.numel()});
}

/// [N, C] to [C].
at::Tensor column_sums(const at::Tensor& x) {
  const c10::cuda::CUDAGuard on_device(x.device());
  const BuiltKernels& kernels = kernels_of(x);
  const std::int64_t rows = x.size(0), columns = x.size(1);
  const at::Tensor sums = at::empty({columns}, x.options());
  const unsigned across = blocks_for(columns, 256);
  // Some blocks per multiprocessor, but each with several rows for each of its warps.
  const unsigned most = blocks_for(rows, std::int64_t{8} * 4);
  const unsigned down =
      std::clamp(blocks_for(std::int64_t{6} * kernels.multiprocessors(), across), 1U, most);
  const at::Tensor parts = at::empty({down, columns}, x.options().dtype(at::kFloat));
  kernels.launch(Kernel::kColumnParts, dim3(across, down), kThreads, read<Bf16>(x),
                 write<float>(parts), Index{rows}, Index{columns});
  sum_parts(kernels, parts, sums, sums);
  return sums;
}

/// dy and x [N, C], means and scales float32 [N], weight [C] to the gradients of x, weight and
/// bias.
std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm_backward(const at::Tensor& dy,
                                                                   const at::Tensor& x,
                                                                   const at::Tensor& means,
                                                                   const at::Tensor& scales,
                                                                   const at::Tensor& weight) {
  const c10::cuda::CUDAGuard on_device(x.device());
  const BuiltKernels& kernels = kernels_of(x);
  const std::int64_t columns = weight.numel(), rows = x.numel() / columns;
  const auto threads = static_cast<unsigned>((columns / 8 + 31) / 32 * 32);
  constexpr unsigned kResident = 768;  // threads of a multiprocessor that its registers are for
  const unsigned at_once = std::clamp(kResident / threads, 1U, 8U);
  const auto blocks =
      static_cast<unsigned>(std::min(rows, std::int64_t{at_once} * kernels.multiprocessors()));
  const at::Tensor dx = at::empty_like(x);
  const at::Tensor of_weight = at::empty_like(weight), of_bias = at::empty_like(weight);
  const at::Tensor parts = at::empty({blocks, 2 * columns}, means.options());
  kernels.launch(Kernel::kLayerNormBackward, dim3(blocks), threads, read<Bf16>(dy), read<Bf16>(x),
                 read<float>(means), read<float>(scales), read<Bf16>(weight), write<Bf16>(dx),
                 write<float>(parts), Index{rows}, Index{columns});
  sum_parts(kernels, parts, of_weight, of_bias);
  return {dx, of_weight, of_bias};
}

/// sum, float32, += x of as many values; with `is_first` sum = x.
void accumulate(at::Tensor& sum, const at::Tensor& x, bool is_first) {
  const c10::cuda::CUDAGuard on_device(x.device());
  if (x.numel() == 0) return;
  kernels_of(x).launch(Kernel::kAccumulate, dim3(blocks_for(x.numel(), std::int64_t{8} * kThreads)),
                       kThreads, write<float>(sum), read<Bf16>(x), Index{x.numel()}, int{is_first});
}

void make_known() {
  // Never unloaded, like LibTorch's CUDA part.
  static torch::Library& library =
      *new torch::Library(torch::Library::DEF, "trireme", std::nullopt, __FILE__, __LINE__);
  const auto on_cuda = [](auto* function) {
    return torch::dispatch(c10::DispatchKey::CUDA, function);
  };
  library.def("log_likelihood_(Tensor(a!) logits, Tensor target, bool gradients) -> Tensor",
              on_cuda(log_likelihood));
  library.def("column_sums(Tensor x) -> Tensor", on_cuda(column_sums));
  library.def(
      "layer_norm_backward(Tensor dy, Tensor x, Tensor means, Tensor scales, Tensor weight) -> "
      "(Tensor, Tensor, Tensor)",
      on_cuda(layer_norm_backward));
  library.def("accumulate_(Tensor(a!) sum, Tensor x, bool is_first) -> ()", on_cuda(accumulate));
}

}  // namespace

void install(int device) {
  const char* const asked = std::getenv("TRIREME_OWN_KERNELS");
  if (asked != nullptr && std::string_view(asked) == "0") return;
  const std::lock_guard lock(mutex);
  if (built.contains(device)) return;
  auto made = std::make_unique<BuiltKernels>(device);
  const bool is_first = built.empty();
  built.emplace(device, std::move(made));
  if (is_first) make_known();
}

}  // namespace trireme::kernels
