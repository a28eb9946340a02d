// Layer and RMS norms.
// SPDX-License-Identifier: Apache-2.0

/// A thread's 8 columns of the rows that its block works on, one after the other: a row's values
/// are on their way while the one before it is worked on.
struct Columns {
  Index count;  ///< of a row
  const Index first = 8 * static_cast<Index>(threadIdx.x);
  const bool are_there = first < count;
  const Index step = count * gridDim.x;            ///< from one row to the next
  const Index begin = count * blockIdx.x + first;  ///< place of the first row's

  /// 0 where there are none.
  __device__ Eight of(const bf16* rows, Index place) const {
    return are_there ? *reinterpret_cast<const Eight*>(rows + place) : Eight{};
  }
  /// Of a parameter, of any alignment.
  __device__ Eight of(const bf16* parameter) const {
    Eight all{};
    if (!are_there) return all;
    for (int j = 0; j < 8; ++j) all.of[j] = parameter[first + j];
    return all;
  }
};

/// Of each of kCount values the sum over all threads of the block, the same for each of them. The
/// block has whole warps, at most 32.
class BlockSums {
 public:
  __device__ BlockSums() {
    const int warps = blockDim.x / 32;
    int group = 1;  // lanes that together read what all warps tell
    while (group < warps) group *= 2;
    half_ = group / 2;
    reads_ = lane_ & (group - 1);
    has_more_ = reads_ < warps;
  }

  template <int kCount>
  __device__ void over_block(float (&values)[kCount]) {
    __shared__ float of_warps[2][kCount][32];
    over_lanes(values, 16);
    // Every other one has the same place: who is late has read it.
    auto& place = of_warps[calls_++ & 1];
    if (lane_ == 0)
      for (int i = 0; i < kCount; ++i) place[i][threadIdx.x / 32] = values[i];
    __syncthreads();
    for (int i = 0; i < kCount; ++i) values[i] = has_more_ ? place[i][reads_] : 0;
    over_lanes(values, half_);
  }

 private:
  template <int kCount>
  __device__ static void over_lanes(float (&values)[kCount], int half) {
    for (int distance = half; distance > 0; distance /= 2)
      for (int i = 0; i < kCount; ++i)
        values[i] += __shfl_xor_sync(0xffffffffU, values[i], distance);
  }

  const int lane_ = threadIdx.x % 32;
  int half_, reads_, calls_ = 0;
  bool has_more_;
};

/// Every operation is written out: a result that is made again by another kernel has the same bits.
__device__ inline float normed(float off, float scale, float weight, float bias) {
  return __fmaf_rn(__fmul_rn(off, scale), weight, bias);
}

/// y = h weight + bias with h = (x - mean) scale, row by row; mean and scale, which is
/// 1 / sqrt(variance + epsilon), are given as well. Without `means` it is an RMS norm: there is no
/// mean and no bias. A thread per 8 columns. `weight` and `bias` have any alignment.
extern "C" __global__ void __launch_bounds__(1024)
    row_norm(const bf16* x, const bf16* weight, const bf16* bias, bf16* y, float* means,
             float* scales, Index rows, Index columns, float epsilon) {
  const Columns mine{columns};
  const bool is_centred = means != nullptr;
  const Eight weights = mine.of(weight), biases = is_centred ? mine.of(bias) : Eight{};
  const float share = 1.0F / static_cast<float>(columns);
  BlockSums sums;
  Index at = mine.begin;
  Eight next = mine.of(x, at);
  for (Index row = blockIdx.x; row < rows; row += gridDim.x) {
    const Eight here = next;
    if (row + gridDim.x < rows) next = mine.of(x, at + mine.step);
    float off[8], mean[1] = {}, squares[1] = {};
    for (int j = 0; j < 8; ++j) off[j] = wide(here.of[j]);
    if (is_centred) {
      for (int j = 0; j < 8; ++j) mean[0] += off[j];
      sums.over_block(mean);
      mean[0] *= share;
      for (int j = 0; j < 8; ++j) off[j] = __fadd_rn(off[j], -mean[0]);
    }
    for (int j = 0; j < 8; ++j) squares[0] += off[j] * off[j];
    if (!mine.are_there) squares[0] = 0;
    sums.over_block(squares);
    const float scale = rsqrtf(share * squares[0] + epsilon);
    if (threadIdx.x == 0) {
      if (is_centred) means[row] = mean[0];
      scales[row] = scale;
    }
    for (int j = 0; j < 8; ++j)
      off[j] = normed(off[j], scale, wide(weights.of[j]), wide(biases.of[j]));
    if (mine.are_there) put(y + at, off);
    at += mine.step;
  }
}

/// The backward of `row_norm`: with g = dy weight, dx = (g - mean(g) - h mean(g h)) scale, without
/// mean(g) for an RMS norm; `more` [rows, columns] is added to it unless it is null. dx may be
/// where dy is. With kAgain y becomes the result again. A thread per 8 columns. Each block gives
/// the sums over its rows of dy h, and where there are means of dy: row b of `parts` [gridDim.x,
/// columns, or twice as many].
template <bool kAgain>
__device__ void norm_backward(const bf16* dy, const bf16* x, const float* means,
                              const float* scales, const bf16* weight, const bf16* bias,
                              const bf16* more, bf16* dx, bf16* y, float* parts, Index rows,
                              Index columns) {
  const Columns mine{columns};
  const bool is_centred = means != nullptr;
  const Eight weights = mine.of(weight);
  const Eight biases = kAgain && is_centred ? mine.of(bias) : Eight{};
  const float share = 1.0F / static_cast<float>(columns);
  float of_weight[8] = {}, of_bias[8] = {};
  BlockSums over;
  Index at = mine.begin;
  Eight next_x = mine.of(x, at), next_dy = mine.of(dy, at);
  float next_mean = is_centred ? means[blockIdx.x] : 0, next_scale = scales[blockIdx.x];
  for (Index row = blockIdx.x; row < rows; row += gridDim.x) {
    const Eight here_x = next_x, here_dy = next_dy;
    const float mean = next_mean, scale = next_scale;
    const Eight here_more = more != nullptr ? mine.of(more, at) : Eight{};
    const Index next = row + gridDim.x;
    if (next < rows) {
      next_x = mine.of(x, at + mine.step);
      next_dy = mine.of(dy, at + mine.step);
      if (is_centred) next_mean = means[next];
      next_scale = scales[next];
    }
    float off[8], g[8], sums[2] = {};  // of g and of g (x - mean)
    for (int j = 0; j < 8; ++j) {      // where there is no column, dy and so every term is 0
      const float of_y = wide(here_dy.of[j]);
      off[j] = __fadd_rn(wide(here_x.of[j]), -mean);
      g[j] = of_y * wide(weights.of[j]);
      of_weight[j] += of_y * (off[j] * scale);
      of_bias[j] += of_y;
      sums[0] += g[j];
      sums[1] += g[j] * off[j];
    }
    over.over_block(sums);
    const float constant = is_centred ? -share * scale * sums[0] : 0;
    const float slope = -share * scale * scale * scale * sums[1];
    for (int j = 0; j < 8; ++j)
      g[j] = g[j] * scale + (off[j] * slope + constant) + wide(here_more.of[j]);
    if (mine.are_there) put(dx + at, g);
    if constexpr (kAgain) {
      for (int j = 0; j < 8; ++j)
        off[j] = normed(off[j], scale, wide(weights.of[j]), wide(biases.of[j]));
      if (mine.are_there) put(y + at, off);
    }
    at += mine.step;
  }
  if (!mine.are_there) return;
  float* const part = parts + (is_centred ? 2 : 1) * blockIdx.x * columns + mine.first;
  for (int j = 0; j < 8; ++j) {
    part[j] = of_weight[j];
    if (is_centred) part[columns + j] = of_bias[j];
  }
}

extern "C" __global__ void __launch_bounds__(1024)
    row_norm_backward(const bf16* dy, const bf16* x, const float* means, const float* scales,
                      const bf16* weight, const bf16* more, bf16* dx, float* parts, Index rows,
                      Index columns) {
  norm_backward<false>(dy, x, means, scales, weight, nullptr, more, dx, nullptr, parts, rows,
                       columns);
}

extern "C" __global__ void __launch_bounds__(1024)
    row_norm_backward_again(const bf16* dy, const bf16* x, const float* means, const float* scales,
                            const bf16* weight, const bf16* bias, const bf16* more, bf16* dx,
                            bf16* y, float* parts, Index rows, Index columns) {
  norm_backward<true>(dy, x, means, scales, weight, bias, more, dx, y, parts, rows, columns);
}
