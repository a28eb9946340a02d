// Kernels of whole steps that LibTorch does in several passes over memory, or in slow ones. Built
// when a GPU is opened, by NVRTC and so without any header. All of them add in an order that
// depends on shapes alone: the same bits every time.
//
// bf16: the bits of a bfloat16. Tensors are contiguous and, unless it is said otherwise, begin at a
// multiple of 16 bytes and have rows of a multiple of 8 values.
// SPDX-License-Identifier: Apache-2.0

using bf16 = unsigned short;
using Index = long long;

/// As many as one access takes.
struct alignas(16) Eight {
  bf16 of[8];
};

struct alignas(16) Four {
  float of[4];
};

/// In one access; left alone, the compiler writes value by value.
__device__ inline void put(bf16* place, const Eight& x) {
  const auto two = [&](int i) { return x.of[i] | static_cast<unsigned>(x.of[i + 1]) << 16; };
  *reinterpret_cast<uint4*>(place) = uint4{two(0), two(2), two(4), two(6)};
}

__device__ inline float wide(bf16 x) {
  return __uint_as_float(static_cast<unsigned>(x) << 16);
}

/// To the nearest, ties to even.
__device__ inline bf16 narrow(float x) {
  const unsigned bits = __float_as_uint(x);
  if (x != x) return 0x7fc0;
  return static_cast<bf16>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

struct Pair {
  float first, second;
};

/// `combine` over all threads of the block, the same for each of them. The block has whole warps.
/// `calls` counts these: every other one has the same place for what warps tell each other, so that
/// who is late has read it.
template <class Combine>
__device__ Pair over_block(Pair mine, Pair neutral, int& calls, const Combine& combine) {
  __shared__ Pair of_warps[2][32];
  const auto over_warp = [&](Pair value) {
    for (int distance = 16; distance > 0; distance /= 2) {
      const Pair other{__shfl_xor_sync(0xffffffffU, value.first, distance),
                       __shfl_xor_sync(0xffffffffU, value.second, distance)};
      value = combine(value, other);
    }
    return value;
  };
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const Pair of_warp = over_warp(mine);
  Pair* const place = of_warps[calls++ % 2];
  if (lane == 0) place[warp] = of_warp;
  __syncthreads();
  return over_warp(lane < warps ? place[lane] : neutral);
}

/// Rows of any alignment: `one(i, x)` for values before and after whole Eights, `eight(i, x)` for
/// these, shared out over the block.
template <class OfOne, class OfEight>
__device__ void for_each_in_row(bf16* row, Index columns, const OfOne& one, const OfEight& eight) {
  const Index misplaced = reinterpret_cast<unsigned long long>(row) / sizeof(bf16) % 8;
  const Index before = misplaced == 0 ? 0 : 8 - misplaced;
  const Index head = before < columns ? before : columns;
  const Index eights = (columns - head) / 8;
  for (Index i = threadIdx.x; i < head; i += blockDim.x) one(i, row[i]);
  auto* const body = reinterpret_cast<Eight*>(row + head);
  for (Index k = threadIdx.x; k < eights; k += blockDim.x) eight(head + 8 * k, body[k]);
  for (Index i = head + 8 * eights + threadIdx.x; i < columns; i += blockDim.x) one(i, row[i]);
}

/// A block per row of `logits` [rows, columns], of any alignment: the logarithm of the softmax at
/// the row's target. With `gradients` the logits become the softmax, less 1 at the target. The
/// largest value and the sum are found in one pass (Milakov and Gimelshein 2018, algorithm 3).
extern "C" __global__ void __launch_bounds__(512)
    log_likelihood(bf16* logits, const Index* targets, float* of_rows, Index columns,
                   int gradients) {
  bf16* const row = logits + blockIdx.x * columns;
  const Index target = targets[blockIdx.x];
  if (target < 0 || target >= columns) __trap();
  const float of_target = wide(row[target]);

  constexpr float kLeast = -3.402823466e38F;  // not infinite: a difference of two is a number
  const auto combine = [](Pair a, Pair b) {   // first: the largest value; second: the sum
    const float most = a.first > b.first ? a.first : b.first;
    return Pair{most, a.second * __expf(a.first - most) + b.second * __expf(b.first - most)};
  };
  Pair mine{kLeast, 0};
  for_each_in_row(
      row, columns,
      [&](Index, bf16 x) {
        mine = combine(mine, {wide(x), 1});
      },
      [&](Index, const Eight& x) {
        float most = mine.first;
        for (int j = 0; j < 8; ++j) most = wide(x.of[j]) > most ? wide(x.of[j]) : most;
        float sum = mine.second * __expf(mine.first - most);
        for (int j = 0; j < 8; ++j) sum += __expf(wide(x.of[j]) - most);
        mine = {most, sum};
      });
  int calls = 0;
  const Pair all = over_block(mine, Pair{kLeast, 0}, calls, combine);
  const float logarithm = logf(all.second);
  const float log_p = of_target - all.first - logarithm;
  if (threadIdx.x == 0) of_rows[blockIdx.x] = log_p;
  if (gradients == 0) return;

  const float shift = all.first + logarithm;
  const auto gradient = [&](Index i, bf16 x) {
    return narrow(i == target ? expm1f(log_p) : __expf(wide(x) - shift));
  };
  for_each_in_row(
      row, columns, [&](Index i, bf16 x) { row[i] = gradient(i, x); },
      [&](Index i, Eight x) {
        for (int j = 0; j < 8; ++j) x.of[j] = gradient(i + j, x.of[j]);
        put(row + i, x);
      });
}

/// Sums of the rows y, y + gridDim.y, ... of x [rows, columns] to row y of `parts`
/// [gridDim.y, columns]. Blocks of 8 warps, each of which reads 256 columns of a row.
extern "C" __global__ void __launch_bounds__(256)
    column_parts(const bf16* x, float* parts, Index rows, Index columns) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const Index column = 256 * static_cast<Index>(blockIdx.x) + 8 * lane;
  const bool is_there = column < columns;
  float sum[8] = {};
  if (is_there) {
    const Index step = 8 * static_cast<Index>(gridDim.y);
#pragma unroll 4
    for (Index row = 8 * static_cast<Index>(blockIdx.y) + warp; row < rows; row += step) {
      const Eight here = *reinterpret_cast<const Eight*>(x + row * columns + column);
      for (int j = 0; j < 8; ++j) sum[j] += wide(here.of[j]);
    }
  }
  __shared__ float of_warps[8][256];
  for (int j = 0; j < 8; ++j) of_warps[warp][8 * lane + j] = sum[j];
  __syncthreads();
  const Index mine = 256 * static_cast<Index>(blockIdx.x) + threadIdx.x;
  if (mine >= columns) return;
  float total = 0;
  for (int w = 0; w < 8; ++w) total += of_warps[w][threadIdx.x];
  parts[blockIdx.y * columns + mine] = total;
}

/// The sums of the columns of `parts` [rows, columns]: the first `split` go to `first`, the others
/// to `second`. Blocks of 32 warps, which share the rows of 32 columns. Of any alignment.
extern "C" __global__ void __launch_bounds__(1024)
    sum_parts(const float* parts, bf16* first, bf16* second, int rows, Index columns, Index split) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const Index column = 32 * static_cast<Index>(blockIdx.x) + lane;
  float sum = 0;
  if (column < columns) {
#pragma unroll 4
    for (int row = warp; row < rows; row += 32) sum += parts[row * columns + column];
  }
  __shared__ float of_warps[32][33];
  of_warps[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || column >= columns) return;
  float total = 0;
  for (int w = 0; w < 32; ++w) total += of_warps[w][lane];
  (column < split ? first[column] : second[column - split]) = narrow(total);
}

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

__device__ inline Pair sum(Pair a, Pair b) {
  return {a.first + b.first, a.second + b.second};
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
  int calls = 0;
  Eight next = mine.of(x, blockIdx.x);
  for (Index row = blockIdx.x; row < rows; row += gridDim.x) {
    const Eight here = next;
    if (row + gridDim.x < rows) next = mine.of(x, row + gridDim.x);
    float mean = 0;
    if (is_centred) {
      Pair total{0, 0};
      for (int j = 0; j < 8; ++j) total.first += wide(here.of[j]);
      mean = share * over_block(total, Pair{0, 0}, calls, sum).first;
    }
    Pair squares{0, 0};
    for (int j = 0; j < 8; ++j) {
      const float off = mine.are_there() ? wide(here.of[j]) - mean : 0;
      squares.first += off * off;
    }
    const float variance = share * over_block(squares, Pair{0, 0}, calls, sum).first;
    const float scale = 1.0F / sqrtf(variance + epsilon);
    if (threadIdx.x == 0) {
      if (is_centred) means[row] = mean;
      scales[row] = scale;
    }
    if (!mine.are_there()) continue;
    Eight result;
    for (int j = 0; j < 8; ++j)
      result.of[j] =
          narrow((wide(here.of[j]) - mean) * scale * wide(weights.of[j]) + wide(biases.of[j]));
    put(y + row * columns + mine.first, result);
  }
}

/// The backward of `row_norm`: with g = dy weight, dx = (g - mean(g) - h mean(g h)) scale, without
/// mean(g) for an RMS norm; `more` [rows, columns] is added to it unless it is null. A thread per 8
/// columns. Each block gives the sums over its rows of dy h, and where there are means of dy: row b
/// of `parts` [gridDim.x, columns, or twice as many].
extern "C" __global__ void __launch_bounds__(1024)
    row_norm_backward(const bf16* dy, const bf16* x, const float* means, const float* scales,
                      const bf16* weight, const bf16* more, bf16* dx, float* parts, Index rows,
                      Index columns) {
  const Columns mine{columns};
  const bool is_centred = means != nullptr;
  const Eight weights = mine.of(weight);
  const float share = 1.0F / static_cast<float>(columns);
  float of_weight[8] = {}, of_bias[8] = {};
  int calls = 0;
  Eight next_x = mine.of(x, blockIdx.x), next_dy = mine.of(dy, blockIdx.x);
  for (Index row = blockIdx.x; row < rows; row += gridDim.x) {
    const Eight here_x = next_x, here_dy = next_dy;
    if (row + gridDim.x < rows) {
      next_x = mine.of(x, row + gridDim.x);
      next_dy = mine.of(dy, row + gridDim.x);
    }
    const Eight here_more = more != nullptr ? mine.of(more, row) : Eight{};
    const float mean = is_centred ? means[row] : 0, scale = scales[row];
    const auto h = [&](int j) { return (wide(here_x.of[j]) - mean) * scale; };
    const auto g = [&](int j) { return wide(here_dy.of[j]) * wide(weights.of[j]); };
    Pair total{0, 0};
    for (int j = 0; j < 8; ++j) {  // where there is no column, dy and so every term is 0
      of_weight[j] += wide(here_dy.of[j]) * h(j);
      of_bias[j] += wide(here_dy.of[j]);
      total = sum(total, {g(j), g(j) * h(j)});
    }
    Pair all = over_block(total, Pair{0, 0}, calls, sum);
    if (!is_centred) all.first = 0;
    if (!mine.are_there()) continue;
    Eight result;
    for (int j = 0; j < 8; ++j)
      result.of[j] =
          narrow((g(j) - share * (all.first + h(j) * all.second)) * scale + wide(here_more.of[j]));
    put(dx + row * columns + mine.first, result);
  }
  if (!mine.are_there()) return;
  float* const part = parts + (is_centred ? 2 : 1) * blockIdx.x * columns + mine.first;
  for (int j = 0; j < 8; ++j) {
    part[j] = of_weight[j];
    if (is_centred) part[columns + j] = of_bias[j];
  }
}

/// Rotary positions (Su et al. 2021): in every head of x [rows, heads x 2 half] the values i and
/// i + half are turned by the angle of (row modulo tokens, i), whose cosines and sines are
/// [tokens, half]; by its opposite with a `direction` of -1, which is the backward. A thread per 8
/// pairs, of which there are `count` times 8; half is a multiple of 8.
extern "C" __global__ void __launch_bounds__(256)
    turn(const bf16* x, const float* cosines, const float* sines, bf16* y, Index count,
         Index tokens, int heads, int half, float direction) {
  const Index mine = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (mine >= count) return;
  const int of_head = half / 8;
  const Index head = mine / of_head, first = 8 * (mine % of_head);
  const Index place = head * 2 * half + first;
  const Index angle = head / heads % tokens * half + first;
  const Eight a = *reinterpret_cast<const Eight*>(x + place);
  const Eight b = *reinterpret_cast<const Eight*>(x + place + half);
  Four c[2], s[2];
  for (int k = 0; k < 2; ++k) {
    c[k] = *reinterpret_cast<const Four*>(cosines + angle + 4 * k);
    s[k] = *reinterpret_cast<const Four*>(sines + angle + 4 * k);
  }
  Eight turned_a, turned_b;
  for (int j = 0; j < 8; ++j) {
    const float cosine = c[j / 4].of[j % 4], sine = direction * s[j / 4].of[j % 4];
    turned_a.of[j] = narrow(wide(a.of[j]) * cosine - wide(b.of[j]) * sine);
    turned_b.of[j] = narrow(wide(b.of[j]) * cosine + wide(a.of[j]) * sine);
  }
  put(y + place, turned_a);
  put(y + place + half, turned_b);
}

__device__ inline float sigmoid(float x) {
  return 1.0F / (1.0F + __expf(-x));
}

/// y = silu(gate) up (Shazeer 2020), for `count` times 8 values, a thread per 8.
extern "C" __global__ void __launch_bounds__(256)
    swiglu(const bf16* gate, const bf16* up, bf16* y, Index count) {
  const Index mine = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (mine >= count) return;
  const Eight g = reinterpret_cast<const Eight*>(gate)[mine];
  const Eight u = reinterpret_cast<const Eight*>(up)[mine];
  Eight result;
  for (int j = 0; j < 8; ++j)
    result.of[j] = narrow(wide(g.of[j]) * sigmoid(wide(g.of[j])) * wide(u.of[j]));
  put(y + 8 * mine, result);
}

/// Its backward: with s = sigmoid(gate), the gradients dy up s (1 + gate (1 - s)) and dy gate s.
extern "C" __global__ void __launch_bounds__(256)
    swiglu_backward(const bf16* dy, const bf16* gate, const bf16* up, bf16* of_gate, bf16* of_up,
                    Index count) {
  const Index mine = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (mine >= count) return;
  const Eight d = reinterpret_cast<const Eight*>(dy)[mine];
  const Eight g = reinterpret_cast<const Eight*>(gate)[mine];
  const Eight u = reinterpret_cast<const Eight*>(up)[mine];
  Eight for_gate, for_up;
  for (int j = 0; j < 8; ++j) {
    const float x = wide(g.of[j]), s = sigmoid(x), of_y = wide(d.of[j]);
    for_gate.of[j] = narrow(of_y * wide(u.of[j]) * s * (1.0F + x * (1.0F - s)));
    for_up.of[j] = narrow(of_y * x * s);
  }
  put(of_gate + 8 * mine, for_gate);
  put(of_up + 8 * mine, for_up);
}

/// sum += x, or sum = x for the first of several; a thread per 8 values, which there are `count`
/// of.
extern "C" __global__ void __launch_bounds__(256)
    accumulate(float* sum, const bf16* x, Index count, int is_first) {
  const Index i = 8 * (static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x);
  if (i >= count) return;
  const auto add = [&](float before, bf16 more) {
    return is_first != 0 ? wide(more) : before + wide(more);
  };
  if (i + 8 > count) {
    for (Index j = i; j < count; ++j) sum[j] = add(sum[j], x[j]);
    return;
  }
  const Eight more = *reinterpret_cast<const Eight*>(x + i);
  for (int half = 0; half < 2; ++half) {
    auto* const place = reinterpret_cast<Four*>(sum + i + 4 * half);
    Four four = is_first != 0 ? Four{} : *place;
    for (int j = 0; j < 4; ++j) four.of[j] = add(four.of[j], more.of[4 * half + j]);
    *place = four;
  }
}

/// What `adamw` updates: a parameter, or a part of one, with what belongs to it.
struct Updated {
  float* value;
  const float* gradient;
  float* first;   ///< moment
  float* second;  ///< moment
  bf16* weight;   ///< the value in bfloat16, or null
  Index count;
};

struct Update {
  static constexpr int kMost = 64;
  Updated of[kMost];
  int begins[kMost];  ///< the first block of each
  int count;
  float rate, decay, beta1, beta2, epsilon;
  float correction1, correction2;  ///< 1 - beta1^step, sqrt(1 - beta2^step)
  const float* divisor;            ///< of the gradients, or null
};

/// AdamW (Loshchilov and Hutter 2019, algorithm 2), and the new value rounded to `weight`: a thread
/// per value, 1024 values per block. Of any alignment; every operation is written out, so that a
/// value's bits do not depend on where it stands.
extern "C" __global__ void __launch_bounds__(256) adamw(Update all) {
  int i = 0;
  while (i + 1 < all.count && all.begins[i + 1] <= static_cast<int>(blockIdx.x)) ++i;
  const Updated one = all.of[i];
  const Index begin = 1024 * (static_cast<Index>(blockIdx.x) - all.begins[i]) + threadIdx.x;
  const float divisor = all.divisor != nullptr ? *all.divisor : 1;
  const float kept = __fmaf_rn(-all.rate, all.decay, 1.0F);
  const float step = __fdiv_rn(all.rate, all.correction1);
  float value[4], gradient[4], first[4], second[4];
  for (int k = 0; k < 4; ++k) {  // all loads before the first store
    const Index at = begin + 256 * k;
    if (at >= one.count) break;
    value[k] = one.value[at];
    gradient[k] = one.gradient[at];
    first[k] = one.first[at];
    second[k] = one.second[at];
  }
  for (int k = 0; k < 4; ++k) {
    const Index at = begin + 256 * k;
    if (at >= one.count) return;
    const float g = all.divisor != nullptr ? __fdiv_rn(gradient[k], divisor) : gradient[k];
    const float m = __fmaf_rn(all.beta1, first[k], __fmul_rn(1.0F - all.beta1, g));
    const float v = __fmaf_rn(all.beta2, second[k], __fmul_rn(__fmul_rn(1.0F - all.beta2, g), g));
    const float root = __fadd_rn(__fdiv_rn(__fsqrt_rn(v), all.correction2), all.epsilon);
    const float result = __fmaf_rn(-step, __fdiv_rn(m, root), __fmul_rn(kept, value[k]));
    one.value[at] = result;
    one.first[at] = m;
    one.second[at] = v;
    if (one.weight != nullptr) one.weight[at] = narrow(result);
  }
}
