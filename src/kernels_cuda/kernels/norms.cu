// Layer and RMS norms.
// SPDX-License-Identifier: Apache-2.0

/// A thread's 8 columns of rows that its block works on, one after the other: a row's values are on
/// their way while the one before it is worked on.
struct Columns {
  Index count;  ///< of a row
  Index first = 8 * static_cast<Index>(threadIdx.x);

  __device__ bool are_there() const { return first < count; }
  __device__ Eight of(const bf16* rows, Index row) const {
    return are_there() ? *reinterpret_cast<const Eight*>(rows + row * count + first) : Eight{};
  }
  /// Of a parameter, of any alignment.
  __device__ Eight of(const bf16* parameter) const {
    Eight all{};
    if (!are_there()) return all;
    for (int j = 0; j < 8; ++j) all.of[j] = parameter[first + j];
    return all;
  }
};

/// Of each of kCount values the sum over all threads of the block, the same for each of them. The
/// block has whole warps, at most 32. `calls` counts these: every other one has the same place for
/// what warps tell each other, so that who is late has read it.
template <int kCount>
__device__ void block_sums(float (&values)[kCount], int& calls) {
  __shared__ float of_warps[2][kCount][32];
  const auto over_lanes = [&](int half) {
    for (int distance = half; distance > 0; distance /= 2)
      for (int i = 0; i < kCount; ++i)
        values[i] += __shfl_xor_sync(0xffffffffU, values[i], distance);
  };
  over_lanes(16);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  auto& place = of_warps[calls++ % 2];
  if (lane == 0)
    for (int i = 0; i < kCount; ++i) place[i][warp] = values[i];
  __syncthreads();
  int group = 1;  // lanes that together read what all warps have told
  while (group < warps) group *= 2;
  const int read = lane % group;
  for (int i = 0; i < kCount; ++i) values[i] = read < warps ? place[i][read] : 0;
  over_lanes(group / 2);
}

/// y = h weight + bias with h = (x - mean) scale, row by row; mean and scale, which is
/// 1 / sqrt(variance + epsilon), are given as well. Without `means` it is an RMS norm: there is no
/// mean and no bias. A thread per 8 columns, kAtOnce rows at once. `weight` and `bias` have any
/// alignment.
template <int kAtOnce>
__device__ void norm_of_rows(const bf16* x, const bf16* weight, const bf16* bias, bf16* y,
                             float* means, float* scales, Index rows, Index columns,
                             float epsilon) {
  const Columns mine{columns};
  const bool is_centred = means != nullptr;
  const Eight weights = mine.of(weight), biases = is_centred ? mine.of(bias) : Eight{};
  const float share = 1.0F / static_cast<float>(columns);
  const Index step = gridDim.x;
  int calls = 0;
  Eight next[kAtOnce];
  const auto load = [&](Index first) {
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k)
      next[k] = first + k * step < rows ? mine.of(x, first + k * step) : Eight{};
  };
  load(blockIdx.x);
  for (Index row = blockIdx.x; row < rows; row += kAtOnce * step) {
    Eight here[kAtOnce];
    float mean[kAtOnce] = {}, scale[kAtOnce] = {};
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      here[k] = next[k];
      for (int j = 0; j < 8; ++j) mean[k] += wide(here[k].of[j]);
    }
    load(row + kAtOnce * step);
    if (is_centred) block_sums(mean, calls);
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      mean[k] = is_centred ? share * mean[k] : 0;
      for (int j = 0; j < 8; ++j) {
        const float off = mine.are_there() ? wide(here[k].of[j]) - mean[k] : 0;
        scale[k] += off * off;
      }
    }
    block_sums(scale, calls);
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const Index at = row + k * step;
      if (at >= rows) continue;
      scale[k] = 1.0F / sqrtf(share * scale[k] + epsilon);
      if (threadIdx.x == 0) {
        if (is_centred) means[at] = mean[k];
        scales[at] = scale[k];
      }
      if (!mine.are_there()) continue;
      Eight result;
      for (int j = 0; j < 8; ++j)
        result.of[j] = narrow((wide(here[k].of[j]) - mean[k]) * scale[k] * wide(weights.of[j]) +
                              wide(biases.of[j]));
      put(y + at * columns + mine.first, result);
    }
  }
}

/// Up to 4096 columns, and more.
extern "C" __global__ void __launch_bounds__(512)
    row_norm(const bf16* x, const bf16* weight, const bf16* bias, bf16* y, float* means,
             float* scales, Index rows, Index columns, float epsilon) {
  norm_of_rows<2>(x, weight, bias, y, means, scales, rows, columns, epsilon);
}
extern "C" __global__ void __launch_bounds__(1024)
    wide_row_norm(const bf16* x, const bf16* weight, const bf16* bias, bf16* y, float* means,
                  float* scales, Index rows, Index columns, float epsilon) {
  norm_of_rows<1>(x, weight, bias, y, means, scales, rows, columns, epsilon);
}

/// The backward: with g = dy weight, dx = (g - mean(g) - h mean(g h)) scale, without mean(g) for an
/// RMS norm; `more` [rows, columns] is added to it unless it is null. A thread per 8 columns. Each
/// block gives the sums over its rows of dy h, and where there are means of dy: row b of `parts`
/// [gridDim.x, columns, or twice as many].
template <int kAtOnce>
__device__ void norm_backward_of_rows(const bf16* dy, const bf16* x, const float* means,
                                      const float* scales, const bf16* weight, const bf16* more,
                                      bf16* dx, float* parts, Index rows, Index columns) {
  const Columns mine{columns};
  const bool is_centred = means != nullptr;
  const Eight weights = mine.of(weight);
  const float share = 1.0F / static_cast<float>(columns);
  const Index step = gridDim.x;
  float of_weight[8] = {}, of_bias[8] = {};
  int calls = 0;
  Eight next_x[kAtOnce], next_dy[kAtOnce];
  float next_mean[kAtOnce] = {}, next_scale[kAtOnce] = {};
  const auto load = [&](Index first) {
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const Index at = first + k * step;
      next_x[k] = next_dy[k] = Eight{};
      if (at >= rows) continue;
      next_x[k] = mine.of(x, at);
      next_dy[k] = mine.of(dy, at);
      if (is_centred) next_mean[k] = means[at];
      next_scale[k] = scales[at];
    }
  };
  load(blockIdx.x);
  for (Index row = blockIdx.x; row < rows; row += kAtOnce * step) {
    Eight here_x[kAtOnce], here_dy[kAtOnce], here_more[kAtOnce];
    float mean[kAtOnce], scale[kAtOnce], sums[2 * kAtOnce] = {};
    const auto h = [&](int k, int j) { return (wide(here_x[k].of[j]) - mean[k]) * scale[k]; };
    const auto g = [&](int k, int j) { return wide(here_dy[k].of[j]) * wide(weights.of[j]); };
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const bool is_there = row + k * step < rows;
      here_x[k] = next_x[k];
      here_dy[k] = next_dy[k];
      here_more[k] = more != nullptr && is_there ? mine.of(more, row + k * step) : Eight{};
      mean[k] = next_mean[k];
      scale[k] = next_scale[k];
    }
    load(row + kAtOnce * step);
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      for (int j = 0; j < 8; ++j) {  // where there is nothing, dy and so every term is 0
        of_weight[j] += wide(here_dy[k].of[j]) * h(k, j);
        of_bias[j] += wide(here_dy[k].of[j]);
        sums[2 * k] += g(k, j);
        sums[2 * k + 1] += g(k, j) * h(k, j);
      }
    }
    block_sums(sums, calls);
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const Index at = row + k * step;
      if (!mine.are_there() || at >= rows) continue;
      const float of_g = is_centred ? sums[2 * k] : 0, of_gh = sums[2 * k + 1];
      Eight result;
      for (int j = 0; j < 8; ++j)
        result.of[j] = narrow((g(k, j) - share * (of_g + h(k, j) * of_gh)) * scale[k] +
                              wide(here_more[k].of[j]));
      put(dx + at * columns + mine.first, result);
    }
  }
  if (!mine.are_there()) return;
  float* const part = parts + (is_centred ? 2 : 1) * blockIdx.x * columns + mine.first;
  for (int j = 0; j < 8; ++j) {
    part[j] = of_weight[j];
    if (is_centred) part[columns + j] = of_bias[j];
  }
}

/// Up to 4096 columns, and more.
extern "C" __global__ void __launch_bounds__(512)
    row_norm_backward(const bf16* dy, const bf16* x, const float* means, const float* scales,
                      const bf16* weight, const bf16* more, bf16* dx, float* parts, Index rows,
                      Index columns) {
  norm_backward_of_rows<2>(dy, x, means, scales, weight, more, dx, parts, rows, columns);
}
extern "C" __global__ void __launch_bounds__(1024)
    wide_row_norm_backward(const bf16* dy, const bf16* x, const float* means, const float* scales,
                           const bf16* weight, const bf16* more, bf16* dx, float* parts, Index rows,
                           Index columns) {
  norm_backward_of_rows<1>(dy, x, means, scales, weight, more, dx, parts, rows, columns);
}
