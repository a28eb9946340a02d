// The dispatcher's operators, which launch the kernels. Their callers ensure the shapes, types and
// alignment that the kernels need (src/model/device_kernels.h).
// SPDX-License-Identifier: Apache-2.0
#include "kernels/built_kernels.h"
#include "kernels/kernels.h"
#include "kernels/schemas.h"

#include <ATen/ATen.h>
#include <ATen/core/List.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <tuple>
#include <vector>

namespace trireme::kernels {
namespace {

// The kernels' types.
using bf16 = std::uint16_t;
using Index = long long;
#include "kernels/arguments.h"
static_assert(sizeof(Update) < 4096 && sizeof(PartSums) < 4096, "what a kernel takes as arguments");

/// Threads of a row of logits: with few rows at a time, the second pass finds its row in the cache.
constexpr unsigned kThreadsOfRow = 1024;
constexpr unsigned kThreads = 256, kThreadsOfSum = 1024;

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

/// From logits [N, V] and targets int64 [N] to float32 [N].
at::Tensor log_likelihood(at::Tensor& logits, const at::Tensor& target, bool gradients) {
  const c10::cuda::CUDAGuard on_device(logits.device());
  const at::Tensor of_rows = at::empty({logits.size(0)}, logits.options().dtype(at::kFloat));
  if (logits.numel() == 0) return of_rows;
  kernels_of(logits).launch(Kernel::kLogLikelihood, dim3(static_cast<unsigned>(logits.size(0))),
                            kThreadsOfRow, write<bf16>(logits), read<Index>(target),
                            write<float>(of_rows), Index{logits.size(1)}, int{gradients});
  return of_rows;
}

/// Grid of blocks of 256 columns; the blocks of the same columns share the rows.
struct ColumnBlocks {
  unsigned across = 0, down = 0;

  ColumnBlocks(const BuiltKernels& kernels, std::int64_t rows, std::int64_t columns)
      : across(blocks_for(columns, 256)) {
    // A few blocks per multiprocessor, but with several rows for each warp.
    const unsigned most = blocks_for(rows, std::int64_t{8} * 4);
    down = std::clamp(blocks_for(std::int64_t{6} * kernels.multiprocessors(), across), 1U, most);
  }
};

/// Multi-tensor launches for `tensors.size()` items, each with as many as `all` has room for:
/// item(i) describes the work on tensors[i].
template <class All, class Item>
void launch_for_each(const BuiltKernels& kernels, Kernel kernel, unsigned threads, All all,
                     at::TensorList tensors, const Item& item) {
  unsigned blocks = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    all.begins[all.count] = static_cast<int>(blocks);
    all.of[all.count++] = item(i);
    blocks += blocks_for(tensors[i].numel(), All::kOfBlock);
    if (all.count < All::kMost && i + 1 < tensors.size()) continue;
    if (blocks > 0) kernels.launch(kernel, dim3(blocks), threads, all);
    all.count = 0;
    blocks = 0;
  }
}

/// Partial sums of columns: [N, C] to float32 [P, C].
at::Tensor column_parts(const at::Tensor& x) {
  const c10::cuda::CUDAGuard on_device(x.device());
  const BuiltKernels& kernels = kernels_of(x);
  const std::int64_t rows = x.size(0), columns = x.size(1);
  const ColumnBlocks by(kernels, rows, columns);
  const at::Tensor parts = at::empty({by.down, columns}, x.options().dtype(at::kFloat));
  kernels.launch(Kernel::kColumnParts, dim3(by.across, by.down), kThreads, read<bf16>(x),
                 write<float>(parts), Index{rows}, Index{columns});
  return parts;
}

/// Lists of the same length: sums[i], float32 or bfloat16, gets the sums of as many columns of
/// parts[i] [P, C], from begins[i] on, as it has values. No two sums are the same.
void sum_parts(at::TensorList sums, at::TensorList parts, at::IntArrayRef begins,
               const c10::List<bool>& is_first) {
  const c10::cuda::CUDAGuard on_device(sums.front().device());
  const auto sum = [&](std::size_t i) -> PartSum {
    const bool is_wide = sums[i].scalar_type() == at::kFloat;
    return {read<float>(parts[i]) + begins[i],
            is_wide ? nullptr : write<bf16>(sums[i]),
            is_wide ? write<float>(sums[i]) : nullptr,
            static_cast<int>(parts[i].size(0)),
            int{is_first.get(i)},
            Index{parts[i].size(1)},
            Index{sums[i].numel()}};
  };
  launch_for_each(kernels_of(sums.front()), Kernel::kSumParts, kThreadsOfSum, PartSums{}, sums,
                  sum);
}

/// Concatenates three x [..., C] to [..., 3 C]; also gives partial sums of its columns.
std::tuple<at::Tensor, at::Tensor> side_by_side(const at::Tensor& x0, const at::Tensor& x1,
                                                const at::Tensor& x2) {
  const c10::cuda::CUDAGuard on_device(x0.device());
  const BuiltKernels& kernels = kernels_of(x0);
  const std::int64_t width = x0.size(-1), columns = 3 * width, rows = x0.numel() / width;
  std::vector<std::int64_t> sizes = x0.sizes().vec();
  sizes.back() = columns;
  const ColumnBlocks by(kernels, rows, columns);
  const at::Tensor y = at::empty(sizes, x0.options());
  const at::Tensor parts = at::empty({by.down, columns}, x0.options().dtype(at::kFloat));
  kernels.launch(Kernel::kSideBySide, dim3(by.across, by.down), kThreads, read<bf16>(x0),
                 read<bf16>(x1), read<bf16>(x2), write<bf16>(y), write<float>(parts), Index{rows},
                 Index{width});
  return {y, parts};
}

/// Launch configuration of a norm kernel for the rows of x: by default blocks with a thread per 8
/// columns.
struct RowBlocks {
  std::int64_t rows, columns;
  Kernel kernel{};
  unsigned threads, blocks = 0;

  explicit RowBlocks(const at::Tensor& x)
      : rows(x.numel() / x.size(-1)),
        columns(x.size(-1)),
        threads(blocks_for(columns, std::int64_t{8} * 32) * 32) {}
  /// At most `most` blocks, and at most as many as are resident where a multiprocessor has room for
  /// `at_once`.
  void take_blocks(const BuiltKernels& kernels, unsigned most, unsigned at_once) {
    blocks = std::min(most, at_once * static_cast<unsigned>(kernels.multiprocessors()));
  }
};

/// Rows of up to 2048 values get a warp each, longer ones a block with a thread per 8 columns.
RowBlocks blocks_for_norm(const BuiltKernels& kernels, const at::Tensor& x) {
  struct ByWarps {
    std::int64_t widest;
    Kernel kernel;
    unsigned at_once;  ///< resident blocks per multiprocessor, by their registers
  };
  constexpr unsigned kWarps = 4;
  constexpr std::array kByWarps{
      ByWarps{2 * 256, Kernel::kNorm2, 8}, ByWarps{3 * 256, Kernel::kNorm3, 8},
      ByWarps{4 * 256, Kernel::kNorm4, 7}, ByWarps{5 * 256, Kernel::kNorm5, 7},
      ByWarps{7 * 256, Kernel::kNorm7, 5}, ByWarps{8 * 256, Kernel::kNorm8, 4}};
  RowBlocks by(x);
  const auto* const fit = std::find_if(kByWarps.begin(), kByWarps.end(), [&](const ByWarps& one) {
    return by.columns <= one.widest;
  });
  if (fit == kByWarps.end()) {
    by.kernel = Kernel::kNorm;
    by.take_blocks(kernels, blocks_for(by.rows, 1), std::max(1024 / by.threads, 1U));
  } else {
    by.kernel = fit->kernel;
    by.threads = 32 * kWarps;
    by.take_blocks(kernels, blocks_for(by.rows, kWarps), fit->at_once);
  }
  return by;
}

/// A thread per 8 columns; all blocks are resident at once, and each sums over its own rows.
RowBlocks blocks_for_norm_backward(const BuiltKernels& kernels, const at::Tensor& x, bool again) {
  RowBlocks by(x);
  const bool is_wide = by.threads > 256;
  // Threads that a multiprocessor's registers suffice for.
  by.take_blocks(kernels, blocks_for(by.rows, 1),
                 std::clamp((is_wide ? 1024 : 640) / by.threads, 1U, 8U));
  if (is_wide)
    by.kernel = again ? Kernel::kWideNormBackwardAgain : Kernel::kWideNormBackward;
  else
    by.kernel = again ? Kernel::kNormBackwardAgain : Kernel::kNormBackward;
  return by;
}

/// From x [..., C] to y and each row's scale, and its mean if `means` is not null: float32.
std::tuple<at::Tensor, at::Tensor> norm(const at::Tensor& x, const at::Tensor& weight,
                                        const at::Tensor* bias, double epsilon, at::Tensor* means) {
  const c10::cuda::CUDAGuard on_device(x.device());
  const BuiltKernels& kernels = kernels_of(x);
  const RowBlocks by = blocks_for_norm(kernels, x);
  const at::Tensor y = at::empty_like(x);
  const at::Tensor scales = at::empty({by.rows}, x.options().dtype(at::kFloat));
  if (means != nullptr) *means = at::empty_like(scales);
  kernels.launch(by.kernel, dim3(by.blocks), by.threads, read<bf16>(x), read<bf16>(weight),
                 bias == nullptr ? nullptr : read<bf16>(*bias), write<bf16>(y),
                 means == nullptr ? nullptr : write<float>(*means), write<float>(scales),
                 Index{by.rows}, Index{by.columns}, static_cast<float>(epsilon));
  return {y, scales};
}

template <class T>
const T* read(const std::optional<at::Tensor>& x) {
  return x && x->defined() ? read<T>(*x) : nullptr;
}

/// dy, x and `more`, which is added to the gradient of x, are [..., C]. dx, which may be dy,
/// becomes that gradient. Returns the recomputed result of the norm if `again`, which needs a layer
/// norm's bias, and partial gradients of weight and, where rows have means, bias: [P, C] or [P, 2
/// C].
std::tuple<at::Tensor, at::Tensor> norm_backward(const at::Tensor& dy, const at::Tensor& x,
                                                 const std::optional<at::Tensor>& means,
                                                 const at::Tensor& scales, const at::Tensor& weight,
                                                 const std::optional<at::Tensor>& bias,
                                                 const std::optional<at::Tensor>& more,
                                                 at::Tensor& dx, bool again) {
  const c10::cuda::CUDAGuard on_device(x.device());
  const BuiltKernels& kernels = kernels_of(x);
  const RowBlocks by = blocks_for_norm_backward(kernels, x, again);
  const int sums = read<float>(means) == nullptr ? 1 : 2;
  at::Tensor y;
  if (again) y = at::empty_like(x);
  const at::Tensor parts = at::empty({by.blocks, sums * by.columns}, scales.options());
  kernels.launch(by.kernel, dim3(by.blocks), by.threads, read<bf16>(dy), read<bf16>(x),
                 read<float>(means), read<float>(scales), read<bf16>(weight), read<bf16>(bias),
                 read<bf16>(more), write<bf16>(dx), again ? write<bf16>(y) : nullptr,
                 write<float>(parts), Index{by.rows}, Index{by.columns});
  return {y, parts};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm(const at::Tensor& x,
                                                          const at::Tensor& weight,
                                                          const at::Tensor& bias, double epsilon) {
  at::Tensor means;
  auto [y, scales] = norm(x, weight, &bias, epsilon, &means);
  return {y, means, scales};
}

std::tuple<at::Tensor, at::Tensor> rms_norm(const at::Tensor& x, const at::Tensor& weight,
                                            double epsilon) {
  return norm(x, weight, nullptr, epsilon, nullptr);
}

/// Rotary positions of x [B, T, heads x D]; cosines and sines float32 [T, D / 2].
at::Tensor turn(const at::Tensor& x, const at::Tensor& cosines, const at::Tensor& sines,
                std::int64_t heads, bool back) {
  const c10::cuda::CUDAGuard on_device(x.device());
  const at::Tensor y = at::empty_like(x);
  const Index count = x.numel() / 16;
  kernels_of(x).launch(Kernel::kTurn, dim3(blocks_for(count, kThreads)), kThreads, read<bf16>(x),
                       read<float>(cosines), read<float>(sines), write<bf16>(y), Index{count},
                       Index{cosines.size(0)}, static_cast<int>(heads),
                       static_cast<int>(cosines.numel() / cosines.size(0)), back ? -1.0F : 1.0F);
  return y;
}

at::Tensor gelu(const at::Tensor& x, bool is_tanh) {
  const c10::cuda::CUDAGuard on_device(x.device());
  const at::Tensor y = at::empty_like(x);
  const Index count = x.numel() / 8;
  kernels_of(x).launch(Kernel::kGelu, dim3(blocks_for(count, kThreads)), kThreads, read<bf16>(x),
                       write<bf16>(y), Index{count}, int{is_tanh});
  return y;
}

/// dy and x [..., C]: dy becomes the gradient of x. Returns the recomputed result if `again`, and
/// partial sums of the gradient's columns.
std::tuple<at::Tensor, at::Tensor> gelu_backward(at::Tensor& dy, const at::Tensor& x, bool is_tanh,
                                                 bool again) {
  const c10::cuda::CUDAGuard on_device(x.device());
  const BuiltKernels& kernels = kernels_of(x);
  const std::int64_t columns = x.size(-1), rows = x.numel() / columns;
  const ColumnBlocks by(kernels, rows, columns);
  const at::Tensor y = again ? at::empty_like(x) : at::Tensor();
  const at::Tensor parts = at::empty({by.down, columns}, x.options().dtype(at::kFloat));
  kernels.launch(Kernel::kGeluBackward, dim3(by.across, by.down), kThreads, write<bf16>(dy),
                 read<bf16>(x), again ? write<bf16>(y) : nullptr, write<float>(parts), Index{rows},
                 Index{columns}, int{is_tanh});
  return {y, parts};
}

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  const c10::cuda::CUDAGuard on_device(gate.device());
  const at::Tensor y = at::empty_like(gate);
  const Index count = gate.numel() / 8;
  kernels_of(gate).launch(Kernel::kSwiglu, dim3(blocks_for(count, kThreads)), kThreads,
                          read<bf16>(gate), read<bf16>(up), write<bf16>(y), Index{count});
  return y;
}

std::tuple<at::Tensor, at::Tensor> swiglu_backward(const at::Tensor& dy, const at::Tensor& gate,
                                                   const at::Tensor& up) {
  const c10::cuda::CUDAGuard on_device(gate.device());
  const at::Tensor of_gate = at::empty_like(gate), of_up = at::empty_like(gate);
  const Index count = gate.numel() / 8;
  kernels_of(gate).launch(Kernel::kSwigluBackward, dim3(blocks_for(count, kThreads)), kThreads,
                          read<bf16>(dy), read<bf16>(gate), read<bf16>(up), write<bf16>(of_gate),
                          write<bf16>(of_up), Index{count});
  return {of_gate, of_up};
}

/// sum, float32, += x of as many values; with `is_first` sum = x.
void accumulate(at::Tensor& sum, const at::Tensor& x, bool is_first) {
  const c10::cuda::CUDAGuard on_device(x.device());
  if (x.numel() == 0) return;
  kernels_of(x).launch(Kernel::kAccumulate, dim3(blocks_for(x.numel(), std::int64_t{8} * kThreads)),
                       kThreads, write<float>(sum), read<bf16>(x), Index{x.numel()}, int{is_first});
}

/// sum, float32 [O, I], += dy^T x of dy [N, O] and x [N, I] in bfloat16; with `is_first` sum = dy^T
/// x. LibTorch's product, which accumulates in float32 and rounds nothing to bfloat16.
void add_product(at::Tensor& sum, const at::Tensor& dy, const at::Tensor& x, bool is_first) {
  at::addmm_out(sum, sum, dy.t(), x, at::kFloat, is_first ? 0 : 1, 1);
}

/// Lists of the same length, except `weights`, which may be empty. All but `weights` are float32.
void adamw(at::TensorList values, at::TensorList gradients, at::TensorList first,
           at::TensorList second, at::TensorList weights, double rate, double decay, double beta1,
           double beta2, double epsilon, std::int64_t step,
           const std::optional<at::Tensor>& divisor) {
  const c10::cuda::CUDAGuard on_device(values.front().device());
  const auto narrow = [](double x) { return static_cast<float>(x); };
  const auto times = static_cast<double>(step);
  const Update all{.rate = narrow(rate),
                   .decay = narrow(decay),
                   .beta1 = narrow(beta1),
                   .beta2 = narrow(beta2),
                   .epsilon = narrow(epsilon),
                   .correction1 = narrow(1 - std::pow(beta1, times)),
                   .correction2 = narrow(std::sqrt(1 - std::pow(beta2, times))),
                   .divisor = divisor && divisor->defined() ? read<float>(*divisor) : nullptr};
  const auto updated = [&](std::size_t i) -> Updated {
    return {write<float>(values[i]),
            read<float>(gradients[i]),
            write<float>(first[i]),
            write<float>(second[i]),
            weights.empty() ? nullptr : write<bf16>(weights[i]),
            Index{values[i].numel()}};
  };
  launch_for_each(kernels_of(values.front()), Kernel::kAdamw, kThreads, all, values, updated);
}

void make_known() {
  // Never unloaded, like LibTorch's CUDA part.
  static torch::Library& library =
      *new torch::Library(torch::Library::DEF, "trireme", std::nullopt, __FILE__, __LINE__);
  const auto define = [](const char* schema, auto* function) {
    library.def(schema, torch::dispatch(c10::DispatchKey::CUDA, function));
  };
  define(kLogLikelihood, log_likelihood);
  define(kColumnParts, column_parts);
  define(kSumParts, sum_parts);
  define(kSideBySide, side_by_side);
  define(kLayerNorm, layer_norm);
  define(kRmsNorm, rms_norm);
  define(kNormBackward, norm_backward);
  define(kTurn, turn);
  define(kGelu, gelu);
  define(kGeluBackward, gelu_backward);
  define(kSwiglu, swiglu);
  define(kSwigluBackward, swiglu_backward);
  define(kAccumulate, accumulate);
  define(kAddProduct, add_product);
  define(kAdamw, adamw);
}

}  // namespace

void install(int device) {
  const char* const asked = std::getenv("TRIREME_OWN_KERNELS");
  if (asked != nullptr && std::string_view(asked) != "1") return;
  const std::lock_guard lock(mutex);
  if (built.contains(device)) return;
  auto made = std::make_unique<BuiltKernels>(device);
  const bool is_first = built.empty();
  built.emplace(device, std::move(made));
  if (is_first) make_known();
}

}  // namespace trireme::kernels
